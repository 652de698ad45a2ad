// confusion.csv: which classes the last evaluation took for which. Pairs that do not occur have no
// row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hg {

struct ConfusionRow {
  std::int64_t truth = 0, predicted = 0;  // classes, from 0
  std::int64_t images = 0;
  std::string truth_name, predicted_name;
};

void write_confusion(const std::string& path, const std::vector<ConfusionRow>& rows);
std::vector<ConfusionRow> read_confusion(const std::string& path);  // none: there is no file

}  // namespace hg
