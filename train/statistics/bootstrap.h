// Intervals for any statistic of one or several arms, by drawing the arms again from themselves:
// each on its own, or values that belong together as one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/statistics/sample.h"

namespace hg::statistics {

using Arms = std::vector<std::vector<double>>;
using Statistic = std::function<double(const Arms&)>;

struct BootstrapOptions {
  int resamples = 10000;
  double confidence = 0.95;
  std::uint64_t seed = 1;
  bool paired = false;  // the i-th values of all arms are drawn together
};

struct Bootstrap {
  double estimate = 0;  // the statistic of the arms as they are
  Interval percentile;
  Interval bca;                       // corrected for bias and skewness; prefer it
  double bias = 0, acceleration = 0;  // z_0 and a of BCa
};

// 3 finite values or more in each arm, not all equal (paired: not all equal in every arm); throws
// otherwise, and when the statistic of a resample is not finite.
Bootstrap bootstrap(const Arms& arms, const Statistic& statistic,
                    const BootstrapOptions& options = {});

// Why arms of finite values can't be resampled ("constant sample, ..."); empty if they can.
std::optional<std::string> bootstrap_refusal(const Arms& arms, bool paired);

double mean_ratio(const Arms& arms);         // mean of arm 1 / mean of arm 0
double median_difference(const Arms& arms);  // median of arm 0 - median of arm 1

}  // namespace hg::statistics
