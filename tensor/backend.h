// The whole interface to a device's memory and clock. Kernels are reached through Op alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/device.h"

namespace hg {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual void* alloc(std::size_t bytes) = 0;  // 64-byte aligned; contents undefined
  virtual void free(void* p) noexcept = 0;
  // Also from and to the host; in order with kernels, for which see synchronize().
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void fill_zero(void* p, std::size_t bytes) = 0;
  virtual void synchronize() = 0;
  virtual std::int64_t timestamp_ns() = 0;
};

Backend& backend(Device device);  // throws where the build has no such device

}  // namespace hg
