// What profiling costs: steps with and without it, in turn, so that a drifting machine hits both.
#pragma once

#include <vector>

#include "energy/books/session.h"
#include "train/phases/measured_step.h"

namespace hg::prof {

// In percent, with its 95 % interval.
struct Difference {
  double percent = 0, low = 0, high = 0;
};

// Of a step's time, and of the thread time it uses, which other programs on the machine disturb
// less.
struct Overhead {
  int pairs = 0;
  Difference time, cpu_time;
};

Overhead measure_overhead(MeasuredStep& step, energy::Meter& meter,
                          const energy::Calibration& calibration);

// Of pairs of steps without and with it: the median of their ratios, with the interval that order
// statistics give. Pure.
Difference difference_of(const std::vector<double>& without, const std::vector<double>& with);

}  // namespace hg::prof
