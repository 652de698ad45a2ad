// From runs' figures to statistics (nn/METHODS.md, section 9): every arm described, and compared to
// the baseline, seed by seed, in energy, F1, time and energy to a target F1. Pure.
#pragma once

#include "train/experiment/figures.h"
#include "train/experiment/plan.h"
#include "train/statistics/compare.h"

namespace hg::experiment {

// The names are those of results.json.
enum class Metric { energy_j, micro_f1, seconds, energy_to_target_j };
inline constexpr Metric kMetrics[] = {Metric::energy_j, Metric::micro_f1, Metric::seconds,
                                      Metric::energy_to_target_j};
std::string_view title(Metric metric);  // "energy", in sentences

struct Target {
  double f1 = 0;
  std::string rule;  // how it was set, before any run
};

// Of the runs of an arm that reached the target; the others are censored: they would need more.
struct ToTarget {
  std::size_t reached = 0;
  std::optional<double> mean_epochs, mean_energy_j, mean_flops;  // none: no run reached it
};

// 100 (1 - FLOPs of the arm / FLOPs of the baseline). FLOPs are counted, not estimated: this has
// no interval, only a range over the seeds, of no width where every run has as many.
struct FlopsSaving {
  double percent = 0;  // of the means
  statistics::Interval range;
};

struct ArmResult {
  std::string name, title;
  std::vector<RunFigures> runs;
  // In the order of kMetrics; energy to target only where every run reached it.
  std::vector<std::optional<statistics::ArmSummary>> summaries;
  ToTarget to_target;
  double mean_flops = 0, mean_tokens_per_image = 0;
  std::optional<FlopsSaving> flops_saving;  // none: the baseline, or no seed in common with it
  // What it trains more or less of than the baseline ("epochs, 5 and 6"); empty: nothing.
  std::string trains_unequally;
  bool pareto = false;  // no other arm has less energy at no lower F1, by their means

  const std::optional<statistics::ArmSummary>& summary(Metric metric) const {
    return summaries[static_cast<std::size_t>(metric)];
  }
};

// An arm against the baseline, in one metric, by the seeds that both have runs of.
struct Contrast {
  std::string arm;
  Metric metric = Metric::energy_j;
  statistics::Comparison comparison;  // a is the baseline
  double p_holm = 1;                  // corrected for the arms compared in this metric

  // What is said of an arm is what both show, the interval of the saving and the corrected test.
  bool shown_less() const;
  bool shown_more() const;
};
inline constexpr double kAlpha = 0.05;

struct Analysis {
  std::vector<ArmResult> arms;  // those with runs, as planned; the baseline first
  std::vector<Contrast> contrasts;
  std::optional<Target> target;  // none: the baseline has no run yet
  // Why an arm's energy is not comparable to the baseline's; by arm, empty if it is.
  std::vector<std::string> obstacles;

  const ArmResult* baseline() const { return arms.empty() ? nullptr : &arms[0]; }
  const ArmResult* arm(const std::string& name) const;
  const Contrast* contrast(const std::string& arm, Metric metric) const;
};

// Runs whose seed the baseline has no run of are described, but not compared.
Analysis analyse(const Plan& plan, const std::vector<RunFigures>& runs);

}  // namespace hg::experiment
