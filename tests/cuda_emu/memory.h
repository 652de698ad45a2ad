// Memory of the emulated device: starts as NaN, lies between guard zones, is closed to the host
// outside kernels and copies, and stays closed for good once freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "tests/cuda_emu/race.h"

namespace hg::emu {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

inline constexpr unsigned char kUnwritten = 0xFF;  // every float and double of it is a NaN

bool unwritten(const std::byte* begin, const std::byte* end);

struct Allocation {
  std::byte* region;  // [guard | data | guard], in whole pages
  std::size_t region_bytes;
  std::byte* data;
  std::size_t bytes;
  bool live;
  std::vector<Cell> cells;  // of the race detector
};

void* device_alloc(std::size_t bytes);  // null when the arena is full
void device_free(void* p);              // throws Fault if p is not an allocation's begin

bool in_arena(const void* p);
// The allocation, live or freed, in whose region p lies; null outside all.
Allocation* allocation_at(const void* p);
std::string describe(const void* p, const Allocation* a);  // "4 bytes past the end of ..."
// Throws Fault unless [p, p + bytes) lies in one live allocation.
Allocation& expect_device_range(const char* who, const void* p, std::size_t bytes);

// Held by whoever changes the device's state: programs call it from several threads.
std::recursive_mutex& device_mutex();

// While one is alive the host may touch device memory: kernels, copies, the cuBLAS stand-ins.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

// The first guard zone that was written to, as a text; empty if all are whole.
std::string damaged_guard();

// A page fault at an address of the arena, met inside a kernel: calls this on the faulting stack.
void set_kernel_fault_handler(void (*handler)(const void* address, const void* code));

}  // namespace hg::emu
