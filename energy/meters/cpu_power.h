// What a CPU draws by a model, for machines without a meter: P = idle + busy * (busy threads).
#pragma once

#include <string>

#include "energy/meters/cpu_info.h"
#include "energy/units.h"

namespace hg::energy {

struct LinearPower {
  Watts idle;         // of the threads this process may use, doing nothing
  Watts busy_thread;  // on top, for each thread at work
};

struct CpuPower {
  LinearPower low, likely, high;
  std::string source;  // "EPYC 7763: 280 W for 128 threads, 2 of them"
};

CpuPower cpu_power(const CpuInfo& cpu);

}  // namespace hg::energy
