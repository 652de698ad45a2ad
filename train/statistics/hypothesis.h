// Two-sided tests of the hypothesis that two arms do not differ, and Holm's correction of several.
#pragma once

#include <span>
#include <vector>

#include "train/statistics/sample.h"

namespace hg::statistics {

// Welch's t-test: means of independent samples of unequal variances.
struct Welch {
  double t = 0, df = 0, p = 0;
  double difference = 0;  // mean(a) - mean(b)
  Interval interval;      // of the difference
};
// 2 values or more each, not both samples constant.
Welch welch(Sample a, Sample b, double confidence = 0.95);

enum class RankMethod { automatic, exact, asymptotic };

struct RankTest {
  double statistic = 0, p = 1;
  bool exact = false;
  double smallest_p = 1;  // what an exact test of so many untied values can reach at best
};

// Independent samples; the statistic is U_1, how often a value of a exceeds one of b. Exact (chosen
// automatically for up to 20 values each) needs values without ties.
RankTest mann_whitney(Sample a, Sample b, RankMethod method = RankMethod::automatic);

// Pairs (a_i, b_i); the statistic is min(T+, T-). Pairs without difference don't count. Exact
// (chosen automatically for up to 25 pairs) needs differences of untied size.
RankTest wilcoxon(Sample a, Sample b, RankMethod method = RankMethod::automatic);

// p-values corrected for being several, in the order given: reject those not above alpha.
std::vector<double> holm(std::span<const double> p);

}  // namespace hg::statistics
