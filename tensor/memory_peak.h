// How much host memory something needs: the most that the allocator had in use at a time.
#pragma once

#include <cstdint>

#include "tensor/base/no_copy.h"

namespace hg {

// Counts from its construction on; one at a time, made while no other thread allocates.
class MemoryPeak : NoCopy {
 public:
  MemoryPeak();
  ~MemoryPeak();
  std::uint64_t bytes() const;  // beyond what was in use when it was made
};

}  // namespace hg
