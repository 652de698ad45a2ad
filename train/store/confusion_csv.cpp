#include "train/store/confusion_csv.h"

#include "tensor/base/csv.h"
#include "tensor/base/files.h"

namespace hg {
namespace {

CsvColumns confusion_columns(ConfusionRow& r) {
  return {{"truth", &r.truth},
          {"predicted", &r.predicted},
          {"images", &r.images},
          {"truth_name", &r.truth_name},
          {"predicted_name", &r.predicted_name}};
}

}  // namespace

void write_confusion(const std::string& path, const std::vector<ConfusionRow>& rows) {
  write_file(path, write_csv(rows, confusion_columns));
}

std::vector<ConfusionRow> read_confusion(const std::string& path) {
  if (!is_file(path)) return {};
  return read_csv<ConfusionRow>(read_text(path), path, confusion_columns);
}

}  // namespace hg
