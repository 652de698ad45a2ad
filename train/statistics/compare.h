// One figure (energy, F1, seconds) of two arms of runs that come in pairs, of one seed each,
// compared by a fixed procedure: Shapiro-Wilk does not reject normality of the differences: paired
// t-test; it does, or cannot tell: Wilcoxon's signed ranks. Both are always worked out, as not
// rejecting normality of few runs proves little, and beside them the tests that know of no pairs.
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

enum class Test { paired_t, wilcoxon };

struct Comparison {
  ArmSummary a, b;         // of the pairs' runs alone
  ArmSummary differences;  // a - b

  // What the procedure chose, its p-value (before any correction for several comparisons), and why.
  Test test = Test::paired_t;
  double p = 1;
  std::string reason;
  std::vector<std::string> caveats;  // sentences to print beside the result

  // One pair, or all of one difference: no paired t, no test of equivalence.
  std::optional<PairedT> paired_t;
  RankTest wilcoxon;
  std::optional<Equivalence> equivalence;  // where a margin was given
  bool equivalent = false;                 // its p is not above alpha

  // As if the arms were independent. Both constant or of a single value: no Welch, no g.
  std::optional<Welch> welch;
  std::optional<double> hedges_g;
  RankTest mann_whitney;
  double a12 = 0.5, cliff_delta = 0;
  std::string_view cliff_label;

  Estimate median_difference;  // median(a) - median(b)
  // 100 (1 - mean(b) / mean(a)): what b saves of a's. Only for positive figures.
  std::optional<Estimate> saving_percent;
  std::string interval_refusal;  // why the two above have no interval
};

struct CompareOptions {
  double alpha = 0.05;  // of every test; intervals have confidence 1 - alpha
  // How far apart means may be that count as the same; none: equivalence is not asked.
  std::optional<double> margin = {};
  int resamples = BootstrapOptions{}.resamples;
  std::uint64_t seed = BootstrapOptions{}.seed;  // of the resampling
};

// a is the baseline; its i-th value and b's make a pair. Throws on arms without values or of
// different length, and on values that are not finite. What too few or constant values don't allow
// is left empty.
Comparison compare(const Arm& a, const Arm& b, const CompareOptions& options = {});

}  // namespace hg::statistics
