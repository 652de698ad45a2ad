// What went on in training, of one run or of several: by epoch, by step and over time.
#include <fmt/format.h>

#include <algorithm>

#include "train/report/chart.h"
#include "train/report/html.h"
#include "train/report/sections.h"

namespace hg::report {
namespace {

constexpr std::size_t kMostPoints = 120;  // of a curve by step or time

std::vector<Series> by_epoch(const std::vector<RunRecord>& runs, const char* what,
                             std::optional<double> EpochRow::*value_of) {
  const std::vector<std::string> names = names_of(runs);
  std::vector<Series> all;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    Series s{names[r], {}};
    for (std::size_t i = 0; i < runs[r].epochs.size(); ++i)
      if (const std::optional<double> value = runs[r].epochs[i].*value_of)
        s.points.push_back({static_cast<double>(i + 1), *value,
                            fmt::format("{}, epoch {}: {} {:.4f}", s.name, i + 1, what, *value)});
    all.push_back(std::move(s));
  }
  return all;
}

std::string energy_against_f1(const std::vector<RunRecord>& runs) {
  double most = 0;
  for (const RunRecord& run : runs) most = std::max(most, run.energy_j.value);
  const Unit unit = energy_unit(most);
  const std::vector<std::string> names = names_of(runs);
  std::vector<Series> all;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    Series s{names[r], {}};
    double sum = 0;
    for (std::size_t i = 0; i < runs[r].epochs.size(); ++i) {
      sum += runs[r].epochs[i].energy_j;
      if (const std::optional<double> f1 = runs[r].epochs[i].micro_f1)
        s.points.push_back({sum * unit.scale, *f1,
                            fmt::format("{}, epoch {}: micro F1 {:.4f} after {}", s.name, i + 1,
                                        *f1, with_prefix(sum, "J"))});
    }
    all.push_back(std::move(s));
  }
  return chart_with_legend({fmt::format("energy so far, {}", unit.name), "micro F1", false, true},
                           all);
}

// Steps are counted over all phases.
std::vector<Series> by_step(const std::vector<RunRecord>& runs, const char* what,
                            double StepRow::*value_of, double scale = 1) {
  const std::vector<std::string> names = names_of(runs);
  std::vector<Series> all;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    std::vector<Point> points;
    for (const StepRow& row : runs[r].steps) {
      const auto x = static_cast<double>(points.size() + 1);
      points.push_back({x, row.*value_of * scale, ""});
    }
    Series s{names[r], thinned(points, kMostPoints), Draw::line};
    for (Point& p : s.points)
      p.note = fmt::format("{}, step {:.0f}: {} {:.4g}", s.name, p.x, what, p.y / scale);
    all.push_back(std::move(s));
  }
  return all;
}

// Watts between the rows of power.csv. Of each curve as many stretches of time as it has points.
std::vector<Series> power_curves(const std::vector<RunRecord>& runs) {
  const std::vector<std::string> names = names_of(runs);
  std::vector<Series> all;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const std::vector<PowerRow>& rows = runs[r].power;
    Series s{names[r], {}, Draw::line};
    const std::size_t every = std::max<std::size_t>(1, rows.size() / kMostPoints);
    for (std::size_t i = every; i < rows.size(); i += every) {
      const PowerRow &from = rows[i - every], &to = rows[i];
      if (to.seconds <= from.seconds) continue;
      const double watts = (to.energy_j - from.energy_j) / (to.seconds - from.seconds);
      s.points.push_back(
          {to.seconds, watts,
           fmt::format("{}, after {:.1f} s: {}", s.name, to.seconds, with_prefix(watts, "W"))});
    }
    all.push_back(std::move(s));
  }
  return all;
}

bool have(const std::vector<RunRecord>& runs, const auto& has) {
  return std::any_of(runs.begin(), runs.end(), has);
}

std::string by_step_and_time(const std::vector<RunRecord>& runs) {
  // Learning rates are small: ticks in thousandths are short.
  constexpr double kThousandths = 1e3;
  std::string html;
  if (have(runs, [](const RunRecord& r) { return !r.steps.empty(); }))
    html += figure("Loss by step",
                   chart_with_legend({"step", "training loss", true, true},
                                     by_step(runs, "loss", &StepRow::loss)),
                   "") +
            figure("Learning rate",
                   chart_with_legend(
                       {"step", "learning rate, thousandths", true, true, true},
                       by_step(runs, "learning rate", &StepRow::learning_rate, kThousandths)),
                   "");
  if (have(runs, [](const RunRecord& r) { return r.power.size() > 1; }))
    html += figure(
        "Power over time",
        chart_with_legend({"time, s", "power, W", false, true, true}, power_curves(runs)), "");
  return html;
}

std::string f1_caption(const RunRecord& run) {
  if (run.test_images == 0 || !run.final_f1()) return "";
  const Interval i = share_of(*run.final_f1(), static_cast<double>(run.test_images));
  return fmt::format("Last micro F1: {:.4f}, {:.4f} to {:.4f}.", i.value, i.low, i.high);
}

}  // namespace

std::string curves(const std::vector<RunRecord>& runs) {
  const bool one = runs.size() == 1;
  std::vector<Series> losses = by_epoch(runs, "test loss", &EpochRow::test_loss),
                      scores = by_epoch(runs, "micro F1", &EpochRow::micro_f1);
  if (one) {
    losses.insert(losses.begin(), by_epoch(runs, "train loss", &EpochRow::train_loss)[0]);
    scores.push_back(by_epoch(runs, "macro F1", &EpochRow::macro_f1)[0]);
    losses[0].name = "training images", losses[1].name = "test images";
    scores[0].name = "micro F1 (accuracy)", scores[1].name = "macro F1";
  }
  return "<div class=\"charts\">\n" +
         figure(one ? "Loss" : "Test loss", chart_with_legend({"epoch", "loss", true}, losses),
                "") +
         figure(one ? "F1 on test images" : "Micro F1 on test images",
                chart_with_legend({"epoch", "F1", true}, scores), one ? f1_caption(runs[0]) : "") +
         figure("Energy against F1", energy_against_f1(runs), "") + by_step_and_time(runs) +
         "</div>\n";
}

}  // namespace hg::report
