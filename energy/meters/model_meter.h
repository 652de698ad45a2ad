// Energy by a model, for machines without a meter. Its figures are marked `modelled`, with bounds
// as wide as such a model may be wrong.
//   package: cpu_power() of the CPU time that this process used
//   dram:    watts per GB of the memory that this process has in use
// Time is CPU time over worker threads: what a process waits for cores that others hold costs it
// nothing, so the same work has the same energy on a busy machine as on an idle one.
#pragma once

#include <functional>

#include "energy/meters/candidate.h"
#include "energy/meters/cpu_power.h"

namespace hg::energy {

inline constexpr const char* kModel = "model";

// What the process has used so far.
struct Usage {
  std::int64_t time_ns = 0;
  double cpu_s = 0, memory_gb = 0;
  int threads = 1;       // that work at once when none has to wait
  bool complete = true;  // false: memory is that of the read before
};

// Samples this process, one of `sharing` that work together here; keeps its file open.
std::function<Usage()> process_usage(int sharing = 1);

Opened open_model(const CpuInfo& cpu, std::function<Usage()> usage = process_usage());

}  // namespace hg::energy
