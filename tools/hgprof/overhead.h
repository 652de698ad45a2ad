// What profiling costs: steps with and without it, in turn, so that a drifting machine hits both.
#pragma once

#include <string>
#include <vector>

#include "energy/books/session.h"
#include "train/phases/measured_step.h"

namespace hg::prof {

// In percent, with its 95 % interval. Noise alone can make a step quicker with profiling: what lies
// below 0 is cut off.
struct Difference {
  double percent = 0, low = 0, high = 0;
};
// "0.52 % (0.31 to 0.80)", or that none is shown and what it is below at most.
std::string text_of(const Difference& cost);

// Overhead in a step's wall time, and in its thread time, which other programs disturb less.
struct Overhead {
  int pairs = 0;
  Difference time, cpu_time;
};

// Says on standard error what it does: it takes as long as some hundred steps.
Overhead measure_overhead(MeasuredStep& step, energy::Meter& meter,
                          const energy::Calibration& calibration);

// The median ratio of pairs of steps with and without profiling, with an interval from order
// statistics. Pure.
Difference difference_of(const std::vector<double>& without, const std::vector<double>& with);

}  // namespace hg::prof
