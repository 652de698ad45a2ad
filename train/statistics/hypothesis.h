// Two-sided tests of the hypothesis that two arms do not differ, a test of the hypothesis that they
// do, and Holm's correction of several.
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

// a_i - b_i. Where they differ from one another by rounding alone, all are the first.
std::vector<double> differences(Sample a, Sample b);

// Student's t-test of pairs (a_i, b_i): the mean of their differences.
struct PairedT {
  double t = 0, df = 0, p = 0;
  double difference = 0;  // mean(a - b)
  Interval interval;      // of the difference
};
// 2 pairs or more, not all of one difference.
PairedT paired_t(Sample a, Sample b, double confidence = 0.95);

// Two one-sided t-tests of pairs: is the mean of their differences between -margin and +margin? Not
// to find a difference says nothing of that.
struct Equivalence {
  double margin = 0, p = 1;  // the larger p of the two tests
  Interval interval;         // of confidence 1 - 2 alpha; inside the margin where p < alpha
};
// As for paired_t(); the margin is above 0.
Equivalence tost(Sample a, Sample b, double margin, double alpha = 0.05);

enum class RankMethod { automatic, exact, asymptotic };

struct RankTest {
  double statistic = 0, p = 1;
  bool exact = false;
  // What an exact test of so many untied values can reach at best. No p is below it: the normal
  // approximation of few tied values would be.
  double smallest_p = 1;
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
