// Caching allocator of device memory: freed blocks are kept and handed out again, so a steady
// training step never calls cudaMalloc, which would wait for the device. Work on them is in order
// on one stream, so a block may be used again while its last reader is still queued.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace hg::cuda {

class DeviceMemory {
 public:
  explicit DeviceMemory(bool cached) : cached_(cached) {}

  void* allocate(std::size_t bytes);
  void deallocate(void* p) noexcept;
  void release_cached();

 private:
  void* from_device(std::size_t bytes);
  void release_all();

  const bool cached_;
  std::mutex mutex_;
  std::unordered_map<void*, std::size_t> sizes_;    // of every block held
  std::map<std::size_t, std::vector<void*>> free_;  // by size
};

}  // namespace hg::cuda
