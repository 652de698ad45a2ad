// Memory of this process and of the machine it runs on.
#pragma once

#include <cstdint>

namespace hg {

std::uint64_t peak_rss_bytes();  // the most memory that this process has had

// All zero where the system does not tell.
struct MachineMemory {
  double total_bytes = 0, used_bytes = 0;
};
MachineMemory machine_memory();

}  // namespace hg
