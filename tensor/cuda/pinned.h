// Host memory that the device reads and writes by itself: copies from and to it are queued, and
// nobody waits. A freed block is used again when the copies queued before are done.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>

#include "tensor/cuda/event.h"

namespace hg::cuda {

class PinnedMemory {
 public:
  void* allocate(std::size_t bytes);
  // Copies from or to p have been queued on `stream`.
  void deallocate(void* p, cudaStream_t stream);

 private:
  struct Block {
    std::size_t size;
    Event last_use;
  };
  std::mutex mutex_;
  std::unordered_map<void*, Block> blocks_;         // all there are
  std::map<std::size_t, std::deque<void*>> freed_;  // by size, in order
};

}  // namespace hg::cuda
