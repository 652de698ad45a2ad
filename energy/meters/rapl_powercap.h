// RAPL counters by the kernel's powercap files.
#pragma once

#include "energy/meters/candidate.h"

namespace hg::energy {

inline constexpr const char* kRaplPowercap = "rapl-powercap";

// `root`: /sys/class/powercap or what stands for it.
Opened open_powercap(std::string root);

}  // namespace hg::energy
