// The energy profile a user names (--profile, run.energy_profile).
#pragma once

#include <string>

#include "energy/books/calibration.h"

namespace hg {

// "" is the default profile. Throws UsageError, naming file, key and what was expected.
energy::Calibration load_energy_profile(const std::string& path);

}  // namespace hg
