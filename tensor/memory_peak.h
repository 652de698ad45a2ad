// How much host memory something needs: the most that the allocator had in use at a time.
#pragma once

#include <cstdint>

namespace hg {

// Counts from its construction on; one at a time, made while no other thread allocates.
class MemoryPeak {
 public:
  MemoryPeak();
  ~MemoryPeak();
  MemoryPeak(const MemoryPeak&) = delete;
  MemoryPeak& operator=(const MemoryPeak&) = delete;
  std::uint64_t bytes() const;  // beyond what was in use when it was made
};

}  // namespace hg
