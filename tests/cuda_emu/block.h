// A block of the running kernel: its threads as fibers, its shared memory, its barriers and warps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_emu/fault.h"
#include "tests/cuda_emu/fiber.h"
#include "tests/cuda_emu/race.h"

struct dim3;

namespace hg::emu {

enum class WarpOp { sync, shfl, shfl_up, shfl_down, shfl_xor, ballot, any, all };
struct WarpCall {
  WarpOp op;
  unsigned mask;
  std::uint64_t value;  // the lane's own
  int argument, width;  // source lane, distance or lane mask; lanes in a segment
  Place place;
};

// From device code, through the intrinsics.
std::uint64_t warp_call(const WarpCall& call);
void barrier(const Place& place);
void* shared_memory(const void* declaration, std::size_t bytes);
void* dynamic_shared_memory();

// Ends the running kernel with a report: its name, block and thread, then `what`.
[[noreturn]] void fault(const std::string& what);

// Who is running, for the race detector.
bool in_kernel();
bool on_own_stack(const void* p);
Access current_access();
struct SharedBlock {
  std::unique_ptr<std::byte, void (*)(void*)> region;  // [guard | data | guard]
  std::size_t guard, bytes;
  std::vector<Cell> cells;
  std::byte* data() const { return region.get() + guard; }
};
SharedBlock* shared_block_at(const void* p);  // in its data or guards

struct Launch {
  const void* kernel;
  const dim3 &grid, &block;
  std::size_t dynamic_shared_bytes;
};
void run_kernel(const Launch& launch, const std::function<void()>& body);  // throws Fault

void set_seed(std::uint64_t seed);  // of the order in which threads run

}  // namespace hg::emu
