// What is common to the ways to read RAPL. What its zones can draw at most, and how late their
// counters are: bounds that tell energy from garbage. Package: twice the TDP of the largest socket
// sold (500 W); dram: 24 modules of 20 W. Counters move about every millisecond; a reader may be
// delayed between taking the time and the value.
#pragma once

#include "energy/meters/meter.h"

namespace hg::energy {

inline constexpr Seconds kRaplSlack{0.01};
constexpr Watts rapl_max_power(Domain domain) {
  return domain == Domain::package ? Watts{1000} : Watts{500};
}

// What is given up where every user may read RAPL.
inline constexpr const char* kOpenToAll =
    "all users, who can then infer secrets of others from power (PLATYPUS; energy/README.md)";

}  // namespace hg::energy
