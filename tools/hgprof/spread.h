// How far apart repeated trials are.
#pragma once

#include <algorithm>

#include "train/statistics/sample.h"

namespace hg::prof {

// Largest minus smallest, relative to the median.
inline double spread(statistics::Sample values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double middle = statistics::median(values);
  return middle > 0 ? (*high - *low) / middle : 0;
}

}  // namespace hg::prof
