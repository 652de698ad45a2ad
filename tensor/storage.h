// A reference-counted buffer on one device. Its version tells when an op wrote to it in place.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensor/base/no_copy.h"
#include "tensor/device.h"

namespace hg {

class Storage : NoCopy {
 public:
  Storage(Device device, std::size_t bytes);
  ~Storage();

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  std::uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

  // The host's copy of a device's buffer, from `offset` bytes on, if it has one.
  struct HostCopy {
    std::shared_ptr<Storage> storage;
    std::size_t offset = 0;
  };
  HostCopy host_copy{};

 private:
  void* data_;
  std::size_t bytes_;
  Device device_;
  std::atomic<std::uint32_t> version_{0};
};

std::shared_ptr<Storage> make_storage(Device device, std::size_t bytes);

}  // namespace hg
