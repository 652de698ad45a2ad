// What the books are made of: pieces of work with their time, and readings of the meter.
#pragma once

#include <cstdint>

#include "energy/meters/meter.h"

namespace hg::energy {

using RowId = std::uint32_t;
inline constexpr RowId kUnattributed = 0, kProfiler = 1, kFirstOp = 2;

// Where a piece of work draws power. `launch`: the time that a thread takes to start a call on the
// GPU; what the call costs is then another activity, on the GPU.
enum class Place : std::uint8_t { cpu, launch, gpu };

// One op call, or one part of a fused one, on the thread or the GPU that ran it.
struct Activity {
  std::int64_t start_ns = 0, end_ns = 0;
  std::uint64_t flops_mm = 0, flops_ew = 0, bytes = 0;
  RowId row = 0;
  std::uint32_t width = 1;  // threads it occupied
  Place place = Place::cpu;

  std::uint64_t flops() const { return flops_mm + flops_ew; }
};

// A reading of the meter, with the CPU time used by then.
struct MeterSample {
  Reading reading;
  std::int64_t cpu_ns = 0;  // of all threads of the process
  std::int64_t own_ns = 0;  // of the profiler
};

// Up to when all activities have been noted, on the CPU and on the GPU.
struct NotedUntil {
  std::int64_t cpu_ns = INT64_MAX, gpu_ns = INT64_MAX;
};

}  // namespace hg::energy
