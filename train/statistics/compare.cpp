#include "train/statistics/compare.h"

#include <algorithm>
#include <utility>

#include "tensor/base/error.h"
#include "train/statistics/effect.h"

namespace hg::statistics {
namespace {

constexpr std::size_t kFewestRuns = 5;

// Why an arm can't be taken for normal; empty if it can.
std::string objection(const ArmSummary& arm, double alpha) {
  if (!arm.shapiro) return fmt::format("{}: {}", arm.name, arm.shapiro_refusal);
  if (arm.shapiro->p > alpha) return "";
  return fmt::format("{}: Shapiro-Wilk rejects normality, p = {:.3g}", arm.name, arm.shapiro->p);
}

void choose_test(Comparison& c, double alpha) {
  std::string objections = objection(c.a, alpha);
  const std::string second = objection(c.b, alpha);
  if (!objections.empty() && !second.empty()) objections += "; ";
  objections += second;
  if (objections.empty()) {
    c.test = Test::welch;
    c.p = c.welch->p;
    c.reason = fmt::format("Shapiro-Wilk rejects normality in neither arm, p = {:.3g} and {:.3g}",
                           c.a.shapiro->p, c.b.shapiro->p);
    return;
  }
  c.test = c.wilcoxon ? Test::wilcoxon : Test::mann_whitney;
  const RankTest& chosen = c.wilcoxon ? *c.wilcoxon : c.mann_whitney;
  c.p = chosen.p;
  c.reason = objections;
  if (chosen.smallest_p > alpha)
    c.caveats.push_back(fmt::format("with {} and {} runs this test cannot get below p = {:.3g}",
                                    c.a.n, c.b.n, chosen.smallest_p));
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
  for (const auto& [arm, summary] : {std::pair{&arms[0], &c.a}, {&arms[1], &c.b}})
    if (const auto refusal = bootstrap_refusal(*arm)) {
      c.interval_refusal = fmt::format("{}: {}", summary->name, *refusal);
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
  require(!options.paired || a.values.size() == b.values.size(), "compare",
          "{} has {} runs and {} has {}, expected pairs", a.name, a.values.size(), b.name,
          b.values.size());

  Comparison c;
  const double confidence = 1 - options.alpha;
  c.a = summarize(a, confidence);
  c.b = summarize(b, confidence);
  for (const ArmSummary* arm : {&c.a, &c.b})
    if (arm->n < kFewestRuns)
      c.caveats.push_back(
          fmt::format("{} has {} runs, expected {} or more", arm->name, arm->n, kFewestRuns));
  if (c.a.n >= 2 && c.b.n >= 2 && *c.a.sd + *c.b.sd > 0) {
    c.welch = welch(a.values, b.values, confidence);
    c.hedges_g = hedges_g(a.values, b.values);
  }
  c.mann_whitney = mann_whitney(a.values, b.values);
  if (options.paired) c.wilcoxon = wilcoxon(a.values, b.values);
  c.a12 = a12(a.values, b.values);
  c.cliff_delta = cliff_delta(a.values, b.values);
  c.cliff_label = cliff_label(c.cliff_delta);
  estimate_differences(c, {a.values, b.values}, {options.resamples, confidence, options.seed});
  choose_test(c, options.alpha);
  return c;
}

}  // namespace hg::statistics
