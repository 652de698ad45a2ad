// Which steps to time op by op on a GPU: timing each op of each step would slow training down.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tensor/observer.h"

namespace hg::energy {

// In the first steps of training, timed and plain ones take turns. Their difference is what timing
// costs, and one step in N is timed from then on, so that it costs kMostCost of a step. Other
// phases are sampled alike, each from its first step on.
class StepSampler {
 public:
  static constexpr int kWarmUp = 2, kTurns = 5, kMostEvery = 200;
  static constexpr double kMostCost = 0.005;

  // Whether the step that begins now is to be timed.
  bool begin(Phase phase, std::int64_t now_ns);
  int every() const { return every_; }   // N; 0: not known yet
  double cost() const { return cost_; }  // of timing a step, in parts of a plain one

 private:
  void note_duration(Phase next, std::int64_t now_ns);
  void decide();

  int every_ = 0;
  double cost_ = 0;
  std::array<std::uint64_t, 8> steps_{};  // by phase
  std::int64_t began_ns_ = 0;
  Phase phase_{};
  bool timed_ = false;
  std::vector<double> timed_ns_, plain_ns_;
};

}  // namespace hg::energy
