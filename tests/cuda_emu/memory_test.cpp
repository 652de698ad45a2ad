// The caching allocator of device memory, which the other tests switch off.
#include "tensor/cuda/memory.h"

#include <doctest/doctest.h>

namespace hg::cuda {
namespace {

TEST_CASE("freed device memory is handed out again, to what fits it") {
  DeviceMemory memory(true);
  void* const a = memory.allocate(1000);
  void* const b = memory.allocate(1000);
  CHECK(a != b);
  memory.deallocate(a);
  CHECK(memory.allocate(100000) != a);
  CHECK(memory.allocate(1020) == a);  // the same size when rounded
  memory.deallocate(b);
  memory.deallocate(nullptr);
  CHECK(memory.allocate(0) != nullptr);
  memory.release_cached();
  CHECK(memory.allocate(1000) != b);  // a new address: the device never gives one twice
}

TEST_CASE("without a cache every block is the device's own") {
  DeviceMemory memory(false);
  void* const a = memory.allocate(1000);
  memory.deallocate(a);
  void* const b = memory.allocate(1000);
  CHECK(b != a);
  memory.deallocate(b);
}

}  // namespace
}  // namespace hg::cuda
