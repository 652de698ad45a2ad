// A finished run's raw figures, read from its folder.
#pragma once

#include <optional>

#include "train/statistics/trade_off.h"
#include "train/store/summary.h"

namespace hg::experiment {

// Its summary, which has scores, and what else an experiment asks.
struct RunFigures : RunSummary {
  std::string arm;
  std::int64_t seed = 0;
  std::string folder;  // relative to the experiment's
  double tokens = 0;
  std::int64_t epochs = 0;                               // over all phases
  std::vector<statistics::EvaluationPoint> evaluations;  // epochs counted over all phases

  statistics::EnergyToTarget to_target(double f1) const {
    return statistics::energy_to_target(evaluations, f1);
  }
};

// Throws UsageError where a file is damaged or lacks a figure.
RunFigures read_figures(const std::string& folder);

// Seconds that runs of these arms will take: the mean of the arm's finished ones, or of all where
// it has none. None: no run is finished.
std::optional<double> seconds_of(const std::vector<std::string>& arms,
                                 const std::vector<RunFigures>& finished);

}  // namespace hg::experiment
