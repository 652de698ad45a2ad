// What a step would take on several ranks: info --ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"

namespace hg {

// Between two ranks: a message of n bytes takes latency + n / bandwidth.
struct Network {
  double bytes_per_s = 10e9, latency_s = 2e-6;
};
// "10,2": GB/s and microseconds. Throws UsageError.
Network network_of(const std::string& text);
// "1,8,64". Throws UsageError.
std::vector<std::int64_t> rank_counts_of(const std::string& text);

// A step on this machine, as bench takes it.
struct MeasuredRank {
  double step_s = 0, joules = 0, gflops_per_s = 0;
  std::string energy_kind{};
  int threads = 1;
};

// What a step needs, whoever takes it.
struct StepNeeds {
  std::int64_t images = 0, lanes = 1, parameters = 0;  // parameters: trained
};

struct StepForecast {
  std::int64_t ranks = 1;
  bool possible = true;  // false: more ranks than images
  double compute_s = 0, exchange_s = 0;
  double joules_low = 0, joules_high = 0;  // of all ranks; waiting draws nothing, or as work does
  double efficiency = 0;                   // of one rank's speed, times ranks
  double weak_efficiency = 0;              // the same with `images` for each rank

  double step_s() const { return compute_s + exchange_s; }
};
StepForecast predict_step(const StepNeeds& needs, const MeasuredRank& one, const Network& network,
                          std::int64_t ranks);

// A step of the phase that bench measures, taken by this rank while those started with it wait.
struct MeasuredAlone {
  std::string phase;
  StepNeeds needs;
  MeasuredRank one;

  StepForecast on(std::int64_t ranks, const Network& network = {}) const {
    return predict_step(needs, one, network, ranks);
  }
};
MeasuredAlone measure_alone(const Config& config, std::optional<std::int64_t> phase = {});

}  // namespace hg
