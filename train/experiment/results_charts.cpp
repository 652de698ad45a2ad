#include "train/experiment/results_charts.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/base/text.h"
#include "train/report/chart.h"

namespace hg::experiment {
namespace {

using report::Draw;
using report::Series;
using statistics::EvaluationPoint;

std::string flops_saved(const ArmResult& arm) {
  return arm.flops_saving ? fmt::format("; FLOPs {:.1f} %", arm.flops_saving->percent) : "";
}

report::Unit unit_of(const Analysis& a) {
  double most = 0;
  for (const ArmResult& arm : a.arms)
    for (const RunFigures& run : arm.runs) most = std::max(most, run.energy_j.value);
  return report::energy_unit(most);
}

// A point for each evaluation that every seed of the arm has, and the spread of its F1.
Series learning_curve(const ArmResult& arm, const auto& x_of, const auto& note_of) {
  Series curve{arm.name, {}};
  std::size_t evaluations = arm.runs.empty() ? 0 : SIZE_MAX;
  for (const RunFigures& run : arm.runs)
    evaluations = std::min(evaluations, run.evaluations.size());
  const auto n = static_cast<double>(arm.runs.size());
  for (std::size_t i = 0; i < evaluations; ++i) {
    EvaluationPoint mean{0, 0, 0, 0};
    report::Spread spread{0, 1, 0};
    for (const RunFigures& run : arm.runs) {
      const EvaluationPoint& e = run.evaluations[i];
      mean.epoch = e.epoch;
      mean.energy_j += e.energy_j / n;
      mean.f1 += e.f1 / n;
      spread.low = std::min(spread.low, e.f1);
      spread.high = std::max(spread.high, e.f1);
    }
    spread.x = x_of(mean);
    curve.points.push_back(
        {spread.x, mean.f1,
         fmt::format("{}, {}: micro F1 {:.4f}, {:.4f} to {:.4f} over {} seeds", arm.name,
                     note_of(mean), mean.f1, spread.low, spread.high, arm.runs.size())});
    curve.spread.push_back(spread);
  }
  return curve;
}

std::vector<Series> learning_curves(const Analysis& a, const auto& x_of, const auto& note_of) {
  std::vector<Series> all;
  for (const ArmResult& arm : a.arms) all.push_back(learning_curve(arm, x_of, note_of));
  return all;
}

}  // namespace

std::string savings_chart(const Analysis& a) {
  std::vector<report::Bar> bars;
  for (std::size_t i = 0; i < a.arms.size(); ++i) {
    const Contrast* c = a.contrast(a.arms[i].name, Metric::energy_j);
    if (!c || !c->comparison.saving_percent || !c->comparison.saving_percent->interval) continue;
    const statistics::Estimate& saving = *c->comparison.saving_percent;
    bars.push_back({a.arms[i].name,
                    fmt::format("{:.1f} % ({:.1f} to {:.1f}){}", saving.value, saving.interval->low,
                                saving.interval->high, flops_saved(a.arms[i])),
                    {saving.value, saving.interval->low, saving.interval->high},
                    i});
  }
  return bars.empty() ? "" : report::interval_chart("Energy saved, %", bars);
}

// A dot a run, in its arm's colour, and a large one for its mean; the line goes around what the
// means on the front beat.
std::string pareto_chart(const Analysis& a) {
  const report::Unit unit = unit_of(a);
  Series front{"Pareto front", {}, Draw::front};
  std::vector<Series> dots, marks;
  for (std::size_t i = 0; i < a.arms.size(); ++i) {
    const ArmResult& arm = a.arms[i];
    dots.push_back({arm.name, {}, Draw::dots, i});
    for (const RunFigures& run : arm.runs)
      dots.back().points.push_back(
          {run.energy_j.value * unit.scale, *run.micro_f1,
           fmt::format("{}, seed {}: micro F1 {:.4f} for {}", arm.name, run.seed, *run.micro_f1,
                       with_prefix(run.energy_j.value, "J"))});
    const double joules = arm.summary(Metric::energy_j)->mean,
                 f1 = arm.summary(Metric::micro_f1)->mean;
    const std::string note =
        fmt::format("{}, mean of {} runs: micro F1 {:.4f} for {}{}", arm.name, arm.runs.size(), f1,
                    with_prefix(joules, "J"), arm.pareto ? ", on the Pareto front" : "");
    marks.push_back({arm.name, {{joules * unit.scale, f1, note}}, Draw::marks, i});
    if (arm.pareto) front.points.push_back({joules * unit.scale, f1, ""});
  }
  std::sort(front.points.begin(), front.points.end(),
            [](const report::Point& p, const report::Point& q) { return p.x < q.x; });
  std::vector<Series> all{front};
  all.insert(all.end(), dots.begin(), dots.end());
  all.insert(all.end(), marks.begin(), marks.end());
  return report::line_chart({fmt::format("energy of a run, {}", unit.name), "micro F1"}, all);
}

std::string f1_by_epoch(const Analysis& a) {
  return report::chart_with_legend(
      {"epoch", "micro F1", true},
      learning_curves(
          a, [](const EvaluationPoint& e) { return static_cast<double>(e.epoch); },
          [](const EvaluationPoint& e) { return fmt::format("epoch {}", e.epoch); }));
}

std::string f1_by_energy(const Analysis& a) {
  const report::Unit unit = unit_of(a);
  return report::chart_with_legend(
      {fmt::format("energy so far, {}", unit.name), "micro F1", false, true},
      learning_curves(
          a, [&](const EvaluationPoint& e) { return e.energy_j * unit.scale; },
          [](const EvaluationPoint& e) { return "after " + with_prefix(e.energy_j, "J"); }));
}

}  // namespace hg::experiment
