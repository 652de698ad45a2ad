// What the energy of a whole run will come to, foretold from its first steps. Pure.
#pragma once

#include <cstdint>
#include <span>

namespace hg {

// Of what the meter will say at the end; 95 %.
struct Forecast {
  std::int64_t step = 0;  // made after so many steps; 0: not made yet
  double energy_j = 0, low_j = 0, high_j = 0;
  bool made() const { return step > 0; }
};

// After how many of an epoch's steps it is made.
std::int64_t forecast_step(std::int64_t steps_of_epoch);

struct Outlook {
  double so_far_j = 0;
  double steps_left = 0;
  double evaluations = 0;  // still to come, as so many training steps' energy
};

// From the joules of each step so far, the first of which is left out as warm-up where others are.
Forecast foretell(std::span<const double> steps_j, const Outlook& outlook);

}  // namespace hg
