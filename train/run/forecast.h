// What the energy of a whole run will come to, predicted from its first steps. Pure.
#pragma once

#include <span>

#include "train/store/summary.h"

namespace hg {

// After how many of an epoch's steps it is made.
std::int64_t forecast_step(std::int64_t steps_of_epoch);

struct Outlook {
  double so_far_j = 0;
  double steps_left = 0;
  double evaluations = 0;  // still to come, as so many training steps' energy
};

// From the joules of each step so far, the first of which is left out as warm-up where others are.
Forecast predict_energy(std::span<const double> steps_j, const Outlook& outlook);

}  // namespace hg
