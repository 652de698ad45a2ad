// Training curves, of one run or of several.
#include <fmt/format.h>

#include <algorithm>

#include "tensor/base/text.h"
#include "train/report/chart.h"
#include "train/report/html.h"
#include "train/report/sections.h"

namespace hg::report {
namespace {

// What energies are drawn in, so that ticks are short.
struct Unit {
  double scale = 1;
  const char* name = "J";
};
Unit unit_for(double most_j) {
  if (most_j >= 1e6) return {1e-6, "MJ"};
  if (most_j >= 1e3) return {1e-3, "kJ"};
  if (most_j >= 1) return {1, "J"};
  return {1e3, "mJ"};
}

std::vector<Series> by_epoch(const std::vector<RunRecord>& runs, const char* what,
                             std::optional<double> EpochRow::*figure) {
  std::vector<Series> all;
  for (const RunRecord& run : runs) {
    Series s{name_among(run, runs), {}};
    for (std::size_t i = 0; i < run.epochs.size(); ++i)
      if (const std::optional<double> value = run.epochs[i].*figure)
        s.points.push_back({static_cast<double>(i + 1), *value,
                            fmt::format("{}, epoch {}: {} {:.4f}", s.name, i + 1, what, *value)});
    all.push_back(std::move(s));
  }
  return all;
}

std::string with_legend(const Axes& axes, const std::vector<Series>& series) {
  std::vector<std::string> names;
  for (const Series& s : series) names.push_back(s.name);
  return (names.size() > 1 ? legend(names) : "") + line_chart(axes, series);
}

std::string energy_against_f1(const std::vector<RunRecord>& runs) {
  double most = 0;
  for (const RunRecord& run : runs) most = std::max(most, run.energy_j.value);
  const Unit unit = unit_for(most);
  std::vector<Series> all;
  for (const RunRecord& run : runs) {
    Series s{name_among(run, runs), {}};
    double sum = 0;
    for (std::size_t i = 0; i < run.epochs.size(); ++i) {
      sum += run.epochs[i].energy_j;
      if (const std::optional<double> f1 = run.epochs[i].micro_f1)
        s.points.push_back({sum * unit.scale, *f1,
                            fmt::format("{}, epoch {}: micro F1 {:.4f} after {}", s.name, i + 1,
                                        *f1, with_prefix(sum, "J"))});
    }
    all.push_back(std::move(s));
  }
  return with_legend({fmt::format("energy so far, {}", unit.name), "micro F1", false, true}, all);
}

std::string energy_caption(const std::vector<RunRecord>& runs) {
  if (runs.size() == 1)
    return fmt::format("Each dot an evaluation. {}; {}.", relative_bounds(runs[0]),
                       runs[0].provenance());
  std::string text = "Each dot an evaluation.";
  for (const RunRecord& run : runs)
    text +=
        fmt::format(" {}: {}, {}.", name_among(run, runs), run.energy_kind, relative_bounds(run));
  return text;
}

}  // namespace

std::string curves(const std::vector<RunRecord>& runs) {
  const Axes loss{"epoch", "loss", true, false}, f1{"epoch", "F1", true, false};
  std::vector<Series> losses, scores;
  if (runs.size() == 1) {
    losses = {by_epoch(runs, "train loss", &EpochRow::train_loss)[0],
              by_epoch(runs, "test loss", &EpochRow::test_loss)[0]};
    losses[0].name = "training images", losses[1].name = "test images";
    scores = {by_epoch(runs, "micro F1", &EpochRow::micro_f1)[0],
              by_epoch(runs, "macro F1", &EpochRow::macro_f1)[0]};
    scores[0].name = "micro F1 (accuracy)", scores[1].name = "macro F1";
  } else {
    losses = by_epoch(runs, "test loss", &EpochRow::test_loss);
    scores = by_epoch(runs, "micro F1", &EpochRow::micro_f1);
  }
  std::string f1_caption = "Measured on the test images, each dot an evaluation.";
  if (runs.size() == 1 && runs[0].test_images > 0 && runs[0].final_f1()) {
    const Interval i = share_of(*runs[0].final_f1(), static_cast<double>(runs[0].test_images));
    f1_caption +=
        fmt::format(" 95 % interval of the last micro F1: {:.4f} to {:.4f}.", i.low, i.high);
  }
  return "<div class=\"charts\">\n" +
         figure(runs.size() == 1 ? "Loss" : "Test loss", with_legend(loss, losses),
                "Mean over the images of an epoch, and over the test images in an evaluation; "
                "exact.") +
         figure(runs.size() == 1 ? "F1" : "Micro F1", with_legend(f1, scores), f1_caption) +
         figure("Energy against F1", energy_against_f1(runs), energy_caption(runs)) + "</div>\n";
}

}  // namespace hg::report
