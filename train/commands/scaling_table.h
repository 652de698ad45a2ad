// The figures of info --ranks: predicted, and where ranks were started, measured.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "train/commands/measured_exchange.h"

namespace hg {

struct ScalingTable {
  MeasuredAlone alone;
  Network network;
  std::vector<StepForecast> predicted;
  std::optional<SharedSteps> together;  // none: there is one rank
};
// All ranks call it; the first has the figures. Throws UsageError.
ScalingTable measure_scaling(const Config& config, const std::string& ranks,
                             const std::string& network);

void print(const ScalingTable& scaling);
nlohmann::ordered_json json_of(const ScalingTable& scaling);

}  // namespace hg
