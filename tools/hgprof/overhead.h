// What profiling costs: steps with and without it, in turn, so that a drifting machine hits both.
#pragma once

#include <vector>

#include "energy/session.h"
#include "train/bench_step.h"

namespace hg::prof {

struct Overhead {
  int pairs = 0;
  double percent = 0, low = 0, high = 0;  // of a step's time; 95 % interval of the mean difference
};

Overhead measure_overhead(BenchStep& step, energy::Meter& meter,
                          const energy::Calibration& calibration);

// From the times of `pairs` steps without and with it: the median of the pairs' ratios, with the
// interval that order statistics give. Pure.
Overhead overhead_of(const std::vector<double>& without, const std::vector<double>& with);

}  // namespace hg::prof
