#include "train/run/confusion_rows.h"

namespace hg {

std::vector<ConfusionRow> confusion_rows(const ConfusionMatrix& matrix,
                                         const std::vector<std::string>& class_names) {
  const auto name = [&](std::int64_t index) {
    const auto i = static_cast<std::size_t>(index);
    return i < class_names.size() ? class_names[i] : std::to_string(index);
  };
  std::vector<ConfusionRow> rows;
  for (const auto& [pair, images] : matrix.cells())
    rows.push_back({pair.first, pair.second, images, name(pair.first), name(pair.second)});
  return rows;
}

}  // namespace hg
