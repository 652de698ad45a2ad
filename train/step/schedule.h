// Learning rate as a pure function of the step, so that a resumed run follows the same curve.
#pragma once

#include <cstdint>

#include "train/config/config.h"

namespace hg {

class Schedule {
 public:
  Schedule(const TrainConfig& train, std::int64_t steps_per_epoch);

  // Step s of 0 .. total_steps()-1:
  //   s < warm-up w:  peak (s+1)/w, which reaches the peak at the last step of the warm-up
  //   cosine:         peak (1 + cos(pi (s-w)/(total-w))) / 2, which would be 0 at s = total
  //   constant:       peak
  double learning_rate(std::int64_t step) const;
  std::int64_t total_steps() const { return total_; }
  std::int64_t warmup_steps() const { return warmup_; }

 private:
  double peak_;
  bool cosine_;
  std::int64_t warmup_, total_;
};

}  // namespace hg
