// Host memory, from the caching allocator.
#include "tensor/backend.h"

#include <cstring>

#include "tensor/allocator.h"
#include "tensor/base/clock.h"
#include "tensor/cpu/features.h"
#include "tensor/cuda_device.h"

namespace hg {
namespace {

class CpuBackend final : public Backend {
 public:
  void* alloc(std::size_t bytes) override { return allocator::allocate(bytes); }
  void free(void* p) noexcept override { allocator::deallocate(p); }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void fill_zero(void* p, std::size_t bytes) override { std::memset(p, 0, bytes); }
  void synchronize() override {}
  std::int64_t timestamp_ns() override { return now_ns(); }
};

// Before other code of ours, which may use what is missing. It stands here because every program
// has this file of the library.
[[gnu::constructor(101)]] void check_cpu() { cpu::require_features(); }

}  // namespace

Backend& backend(Device device) {
  static CpuBackend& cpu = *new CpuBackend;  // never destroyed: tensors may outlive main
  return device == Device::cpu ? cpu : cuda::backend();
}

}  // namespace hg
