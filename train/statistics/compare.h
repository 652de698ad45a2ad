// One figure (energy, F1, seconds) of two arms of repeated runs, compared by a fixed procedure:
// Shapiro-Wilk rejects normality in neither arm: means, t-intervals, Welch, Hedges g; in any arm:
// medians, quartiles, resampled intervals, Mann-Whitney, or Wilcoxon for arms paired by seed. Both
// ways are always worked out, as not rejecting normality of few runs proves little.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/statistics/bootstrap.h"
#include "train/statistics/hypothesis.h"
#include "train/statistics/normality.h"
#include "train/statistics/sample.h"

namespace hg::statistics {

struct Arm {
  std::string name;
  std::vector<double> values;  // one a run
};

struct ArmSummary {
  std::string name;
  std::size_t n = 0;
  double mean = 0, median = 0;
  Interval quartiles;
  // From 2 values on.
  std::optional<double> sd;
  std::optional<Interval> mean_interval;  // by Student's t
  std::optional<ShapiroWilk> shapiro;
  std::string shapiro_refusal;  // why there is none
};

// 1 finite value or more.
ArmSummary summarize(const Arm& arm, double confidence);

struct Estimate {
  double value = 0;
  std::optional<Interval> interval;  // BCa
};

enum class Test { welch, mann_whitney, wilcoxon };

struct Comparison {
  ArmSummary a, b;

  // What the procedure chose, its p-value (before any correction for several comparisons), and why.
  Test test = Test::welch;
  double p = 1;
  std::string reason;
  std::vector<std::string> caveats;  // sentences to print beside the result

  // Both samples constant or one of a single value: no Welch, no g.
  std::optional<Welch> welch;
  std::optional<double> hedges_g;
  RankTest mann_whitney;
  std::optional<RankTest> wilcoxon;  // paired arms
  double a12 = 0.5, cliff_delta = 0;
  std::string_view cliff_label;

  Estimate median_difference;  // median(a) - median(b)
  // 100 (1 - mean(b) / mean(a)): what b saves of a's. Only for positive figures.
  std::optional<Estimate> saving_percent;
  std::string interval_refusal;  // why the two above have no interval
};

struct CompareOptions {
  bool paired = false;  // a's and b's values come in pairs, of one seed each
  double alpha = 0.05;  // of every test; intervals have confidence 1 - alpha
  int resamples = BootstrapOptions{}.resamples;
  std::uint64_t seed = BootstrapOptions{}.seed;  // of the resampling
};

// a is the baseline. Throws on arms without values, values that are not finite, and paired arms of
// different length. What too few or constant values don't allow is left empty.
Comparison compare(const Arm& a, const Arm& b, const CompareOptions& options = {});

}  // namespace hg::statistics
