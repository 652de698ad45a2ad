// A finished run's raw figures, read from its folder.
#pragma once

#include <string>
#include <vector>

#include "train/statistics/trade_off.h"

namespace hg::experiment {

struct RunFigures {
  std::string arm;
  std::int64_t seed = 0;
  std::string folder;  // relative to the experiment's
  double energy_j = 0, energy_low_j = 0, energy_high_j = 0;
  std::string energy_kind, energy_source;
  double co2_g = 0, seconds = 0, flops = 0, flops_matmul = 0, images = 0, tokens = 0;
  double micro_f1 = 0, macro_f1 = 0, accuracy = 0;
  std::int64_t epochs = 0;                               // over all phases
  std::vector<statistics::EvaluationPoint> evaluations;  // epochs counted over all phases

  statistics::EnergyToTarget to_target(double f1) const {
    return statistics::energy_to_target(evaluations, f1);
  }
};

// Throws UsageError where a file is damaged or lacks a figure.
RunFigures read_figures(const std::string& folder);

}  // namespace hg::experiment
