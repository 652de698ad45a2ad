#include "train/experiment/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hg::experiment {
namespace {

using statistics::ArmSummary;

constexpr double kConfidence = 1 - kAlpha;

double mean_of(const std::vector<RunFigures>& runs, auto figure) {
  std::vector<double> values;
  for (const RunFigures& run : runs) values.push_back(figure(run));
  return statistics::mean(values);
}

// Nothing where a run has no such figure.
std::optional<double> figure(const RunFigures& run, Metric metric,
                             const std::optional<Target>& target) {
  if (metric == Metric::energy_j) return run.energy_j.value;
  if (metric == Metric::micro_f1) return *run.micro_f1;
  if (metric == Metric::seconds) return run.seconds;
  if (!target || !run.to_target(target->f1).reached) return std::nullopt;
  return run.to_target(target->f1).energy_j;
}

// Nothing where any run has no such figure.
std::optional<statistics::Arm> sample(const ArmResult& arm, Metric metric,
                                      const std::optional<Target>& target) {
  statistics::Arm values{arm.name, {}};
  for (const RunFigures& run : arm.runs) {
    const std::optional<double> value = figure(run, metric, target);
    if (!value) return std::nullopt;
    values.values.push_back(*value);
  }
  return values;
}

// Runs of one seed, the baseline's first, by rising seed.
using Pair = std::pair<const RunFigures*, const RunFigures*>;
std::vector<Pair> pairs_of(const ArmResult& baseline, const ArmResult& arm) {
  std::vector<Pair> pairs;
  for (const RunFigures& a : baseline.runs)
    for (const RunFigures& b : arm.runs)
      if (a.seed == b.seed) pairs.emplace_back(&a, &b);
  std::sort(pairs.begin(), pairs.end(),
            [](const Pair& x, const Pair& y) { return x.first->seed < y.first->seed; });
  return pairs;
}

std::optional<FlopsSaving> flops_saving(const std::vector<Pair>& pairs) {
  FlopsSaving saving;
  double before = 0, after = 0;
  for (const auto& [a, b] : pairs) {
    if (a->flops == 0) return std::nullopt;
    const auto x = static_cast<double>(a->flops), y = static_cast<double>(b->flops);
    const double percent = 100 * (1 - y / x);
    saving.range = before == 0 ? statistics::Interval{percent, percent}
                               : statistics::Interval{std::min(saving.range.low, percent),
                                                      std::max(saving.range.high, percent)};
    before += x;
    after += y;
  }
  if (pairs.empty()) return std::nullopt;
  saving.percent = 100 * (1 - after / before);
  return saving;
}

ToTarget to_target(const ArmResult& arm, double f1) {
  std::vector<double> epochs, joules, flops;
  for (const RunFigures& run : arm.runs)
    if (const auto reached = run.to_target(f1); reached.reached) {
      epochs.push_back(static_cast<double>(reached.epoch));
      joules.push_back(reached.energy_j);
      flops.push_back(reached.flops);
    }
  if (epochs.empty()) return {};
  return {epochs.size(), statistics::mean(epochs), statistics::mean(joules),
          statistics::mean(flops)};
}

std::vector<ArmResult> arms_with_runs(const Plan& plan, const std::vector<RunFigures>& runs) {
  std::vector<ArmResult> arms;
  for (const Arm& planned : plan.arms) {
    ArmResult arm;
    arm.name = planned.name;
    arm.title = planned.title;
    for (const RunFigures& run : runs)
      if (run.arm == arm.name) arm.runs.push_back(run);
    if (arm.runs.empty()) continue;
    arm.mean_flops =
        mean_of(arm.runs, [](const RunFigures& r) { return static_cast<double>(r.flops); });
    arm.mean_tokens_per_image = mean_of(arm.runs, [](const RunFigures& r) {
      return r.images > 0 ? r.tokens / static_cast<double>(r.images) : 0;
    });
    arms.push_back(std::move(arm));
  }
  return arms;
}

void mark_pareto(std::vector<ArmResult>& arms) {
  std::vector<statistics::TradeOff> points;
  for (const ArmResult& arm : arms)
    points.push_back({arm.summary(Metric::energy_j)->mean, arm.summary(Metric::micro_f1)->mean});
  for (const std::size_t i : statistics::pareto_set(points)) arms[i].pareto = true;
}

std::optional<Target> target_of(const Plan& plan, const std::vector<ArmResult>& arms) {
  if (plan.target_f1) return Target{*plan.target_f1, "given with " + plan.target_from};
  if (arms.empty() || arms[0].name != plan.arms[0].name) return std::nullopt;
  return Target{
      kTargetShare * mean_of(arms[0].runs, [](const RunFigures& r) { return *r.micro_f1; }),
      fmt::format("{} of the mean final micro F1 of {}, a rule set before the runs", kTargetShare,
                  arms[0].name)};
}

const Config& config_of(const Plan& plan, const std::string& name) {
  return std::find_if(plan.arms.begin(), plan.arms.end(),
                      [&](const Arm& a) { return a.name == name; })
      ->config;
}

std::string obstacle(const Plan& plan, const ArmResult& baseline, const ArmResult& arm) {
  for (const ArmResult* side : {&baseline, &arm})
    for (const RunFigures& run : side->runs)
      if (run.energy_kind != baseline.runs[0].energy_kind)
        return fmt::format("kind of energy, {} and {}", baseline.runs[0].energy_kind,
                           run.energy_kind);
  return incomparable(config_of(plan, baseline.name), config_of(plan, arm.name));
}

// An F1 has a margin within which it counts as the same.
std::optional<double> margin_of(const Plan& plan, Metric metric) {
  if (metric != Metric::micro_f1) return std::nullopt;
  return plan.margin_points / 100;
}

// All arms against the first, the p-values corrected for being several. Where a run has no such
// figure, its arm is not compared: the runs left over would be the better ones.
void compare_all(const Plan& plan, Analysis& a, Metric metric) {
  if (!a.arms[0].summary(metric)) return;
  std::vector<Contrast> found;
  std::vector<double> p;
  for (std::size_t i = 1; i < a.arms.size(); ++i) {
    statistics::Arm base{a.arms[0].name, {}}, arm{a.arms[i].name, {}};
    if (!a.arms[i].summary(metric)) continue;
    for (const auto& [x, y] : pairs_of(a.arms[0], a.arms[i])) {
      base.values.push_back(*figure(*x, metric, a.target));
      arm.values.push_back(*figure(*y, metric, a.target));
    }
    if (arm.values.empty()) continue;
    const statistics::CompareOptions options{.alpha = kAlpha, .margin = margin_of(plan, metric)};
    found.push_back({arm.name, metric, statistics::compare(base, arm, options)});
    p.push_back(found.back().comparison.p);
  }
  const std::vector<double> corrected = statistics::holm(p);
  for (std::size_t i = 0; i < found.size(); ++i) found[i].p_holm = corrected[i];
  a.contrasts.insert(a.contrasts.end(), found.begin(), found.end());
}

// Of the saving; none where there is no saving or no interval.
const statistics::Interval* interval_of(const Contrast& c) {
  const auto& saving = c.comparison.saving_percent;
  return saving && saving->interval ? &*saving->interval : nullptr;
}

}  // namespace

bool Contrast::shown_less() const {
  const statistics::Interval* saving = interval_of(*this);
  return saving && saving->low > 0 && p_holm <= kAlpha;
}

bool Contrast::shown_more() const {
  const statistics::Interval* saving = interval_of(*this);
  return saving && saving->high < 0 && p_holm <= kAlpha;
}

std::string_view title(Metric metric) {
  constexpr std::string_view kTitles[] = {"energy", "micro F1", "time", "energy to the target"};
  return kTitles[static_cast<std::size_t>(metric)];
}

const ArmResult* Analysis::arm(const std::string& name) const {
  for (const ArmResult& arm : arms)
    if (arm.name == name) return &arm;
  return nullptr;
}

const Contrast* Analysis::contrast(const std::string& arm, Metric metric) const {
  for (const Contrast& c : contrasts)
    if (c.arm == arm && c.metric == metric) return &c;
  return nullptr;
}

Analysis analyse(const Plan& plan, const std::vector<RunFigures>& runs) {
  Analysis a;
  a.arms = arms_with_runs(plan, runs);
  a.target = target_of(plan, a.arms);
  for (ArmResult& arm : a.arms) {
    if (a.target) arm.to_target = to_target(arm, a.target->f1);
    for (const Metric metric : kMetrics) {
      const auto values = sample(arm, metric, a.target);
      arm.summaries.push_back(values ? std::optional(statistics::summarize(*values, kConfidence))
                                     : std::nullopt);
    }
  }
  mark_pareto(a.arms);
  if (a.arms.empty() || a.arms[0].name != plan.arms[0].name) return a;
  for (const ArmResult& arm : a.arms) a.obstacles.push_back(obstacle(plan, a.arms[0], arm));
  for (ArmResult& arm : a.arms)
    arm.trains_unequally =
        unequal_training(config_of(plan, a.arms[0].name), config_of(plan, arm.name));
  for (std::size_t i = 1; i < a.arms.size(); ++i)
    a.arms[i].flops_saving = flops_saving(pairs_of(a.arms[0], a.arms[i]));
  for (const Metric metric : kMetrics) compare_all(plan, a, metric);
  return a;
}

}  // namespace hg::experiment
