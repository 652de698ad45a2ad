// RAPL counters by perf events. They have 64 bits and never wrap, so they are preferred where the
// system allows it.
#pragma once

#include <cstddef>

#include "energy/meters/candidate.h"
#include "energy/meters/cpu_info.h"

namespace hg::energy {

// The system calls, so that tests can stand in for the kernel.
class PerfSystem {
 public:
  virtual ~PerfSystem() = default;
  virtual int open(std::uint32_t type, std::uint64_t config, int cpu) = 0;  // fd or -errno
  virtual long read(int fd, void* to, std::size_t bytes) = 0;               // bytes or -errno
  virtual void close(int fd) = 0;
};
PerfSystem& kernel_perf();

inline constexpr const char* kRaplPerf = "rapl-perf";

// `sys`: /sys or what stands for it. The meter keeps using `perf`.
Opened open_perf(const std::string& sys, const CpuInfo& cpu, PerfSystem& perf);

}  // namespace hg::energy
