#include "train/store/metrics_csv.h"

#include "tensor/base/csv.h"
#include "tensor/base/files.h"
#include "tensor/base/usage_error.h"

namespace hg {
namespace {

CsvColumns columns_of(EpochRow& r) {
  return {{"phase", &r.phase},
          {"epoch", &r.epoch},
          {"step", &r.step},
          {"train_loss", &r.train_loss},
          {"test_loss", &r.test_loss},
          {"accuracy", &r.accuracy},
          {"micro_f1", &r.micro_f1},
          {"macro_f1", &r.macro_f1},
          {"images_per_s", &r.images_per_s},
          {"tokens_per_image", &r.tokens_per_image},
          {"flops", &r.flops},
          {"energy_j", &r.energy_j},
          {"co2_g", &r.co2_g},
          {"seconds", &r.seconds},
          {"sparsity", &r.sparsity},
          {"small_weights", &r.small_weights},
          {"effective_support", &r.effective_support}};
}
constexpr std::size_t kSparsityColumns = 3;  // the last ones

}  // namespace

std::vector<EpochRow> read_metrics(const std::string& path) {
  return read_csv<EpochRow>(read_text(path), path, columns_of);
}

MetricsLog::MetricsLog(std::string path, bool with_sparsity, std::optional<std::size_t> rows)
    : path_(std::move(path)), with_sparsity_(with_sparsity) {
  if (rows && !path_.empty()) {
    rows_ = read_metrics(path_);
    usage_require(rows_.size() >= *rows, path_, "expected at least {} rows, got {}", *rows,
                  rows_.size());
    rows_.resize(*rows);
  }
  write();
}

void MetricsLog::append(const EpochRow& row) {
  rows_.push_back(row);
  write();
}

void MetricsLog::write() const {
  if (path_.empty()) return;
  write_file(path_, write_csv(rows_, [&](EpochRow& row) {
               CsvColumns columns = columns_of(row);
               if (!with_sparsity_) columns.resize(columns.size() - kSparsityColumns);
               return columns;
             }));
}

}  // namespace hg
