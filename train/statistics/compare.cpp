#include "train/statistics/compare.h"

#include <algorithm>

#include "tensor/base/error.h"
#include "train/statistics/effect.h"

namespace hg::statistics {
namespace {

constexpr std::size_t kFewestRuns = 5;

// The pairs alone are judged: arms far from normal may well have differences that are normal.
void choose_test(Comparison& c, double alpha) {
  const std::optional<ShapiroWilk>& shapiro = c.differences.shapiro;
  if (shapiro && shapiro->p > alpha) {
    c.test = Test::paired_t;
    c.p = c.paired_t->p;
    c.reason = fmt::format("Shapiro-Wilk does not reject normality of the differences, p = {:.3g}",
                           shapiro->p);
    return;
  }
  c.test = Test::wilcoxon;
  c.p = c.wilcoxon.p;
  c.reason = shapiro ? fmt::format("Shapiro-Wilk rejects normality of the differences, p = {:.3g}",
                                   shapiro->p)
                     : fmt::format("normality of the differences is not known: {}",
                                   c.differences.shapiro_refusal);
}

std::vector<std::string> caveats_of(const Comparison& c, double alpha) {
  std::vector<std::string> caveats;
  if (c.differences.n < kFewestRuns)
    caveats.push_back(
        fmt::format("{} pairs of runs, expected {} or more", c.differences.n, kFewestRuns));
  if (c.wilcoxon.smallest_p > alpha)
    caveats.push_back(fmt::format("with {} pairs Wilcoxon cannot get below p = {:.3g}",
                                  c.differences.n, c.wilcoxon.smallest_p));
  return caveats;
}

bool positive(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return v > 0; });
}

// 100 (1 - ratio), which turns the interval round.
double saving_of(double ratio) { return 100 * (1 - ratio); }

void estimate_differences(Comparison& c, const Arms& arms, const BootstrapOptions& options) {
  c.median_difference.value = median_difference(arms);
  const bool has_ratio = positive(arms[0]) && positive(arms[1]);
  if (has_ratio) c.saving_percent = Estimate{saving_of(mean_ratio(arms)), {}};
  if (const auto refusal = bootstrap_refusal(arms, options.paired)) {
    c.interval_refusal = *refusal;
    return;
  }
  c.median_difference.interval = bootstrap(arms, median_difference, options).bca;
  if (!has_ratio) return;
  const Interval ratio = bootstrap(arms, mean_ratio, options).bca;
  c.saving_percent->interval = Interval{saving_of(ratio.high), saving_of(ratio.low)};
}

}  // namespace

ArmSummary summarize(const Arm& arm, double confidence) {
  require_sample(arm.values, 1, arm.name);
  ArmSummary summary;
  summary.name = arm.name;
  summary.n = arm.values.size();
  summary.mean = mean(arm.values);
  summary.median = median(arm.values);
  summary.quartiles = quartiles(arm.values);
  if (summary.n >= 2) {
    summary.sd = standard_deviation(arm.values);
    summary.mean_interval = t_interval(arm.values, confidence);
  }
  if (const auto refusal = shapiro_wilk_refusal(arm.values))
    summary.shapiro_refusal = *refusal;
  else
    summary.shapiro = shapiro_wilk(arm.values);
  return summary;
}

Comparison compare(const Arm& a, const Arm& b, const CompareOptions& options) {
  require(options.alpha > 0 && options.alpha < 1, "compare", "alpha {} is outside (0,1)",
          options.alpha);
  for (const Arm* arm : {&a, &b}) require_sample(arm->values, 1, arm->name);
  require(a.values.size() == b.values.size(), "compare",
          "{} has {} runs and {} has {}, expected pairs", a.name, a.values.size(), b.name,
          b.values.size());

  Comparison c;
  const double confidence = 1 - options.alpha;
  c.a = summarize(a, confidence);
  c.b = summarize(b, confidence);
  c.differences = summarize({"differences", differences(a.values, b.values)}, confidence);
  if (c.differences.sd.value_or(0) > 0) {
    c.paired_t = paired_t(a.values, b.values, confidence);
    if (options.margin) c.equivalence = tost(a.values, b.values, *options.margin, options.alpha);
    c.equivalent = c.equivalence && c.equivalence->p <= options.alpha;
  }
  c.wilcoxon = wilcoxon(a.values, b.values);
  if (c.a.n >= 2 && *c.a.sd + *c.b.sd > 0) {
    c.welch = welch(a.values, b.values, confidence);
    c.hedges_g = hedges_g(a.values, b.values);
  }
  c.mann_whitney = mann_whitney(a.values, b.values);
  c.a12 = a12(a.values, b.values);
  c.cliff_delta = cliff_delta(a.values, b.values);
  c.cliff_label = cliff_label(c.cliff_delta);
  estimate_differences(c, {a.values, b.values},
                       {options.resamples, confidence, options.seed, /*paired=*/true});
  choose_test(c, options.alpha);
  c.caveats = caveats_of(c, options.alpha);
  return c;
}

}  // namespace hg::statistics
