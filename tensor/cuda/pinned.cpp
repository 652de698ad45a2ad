#include "tensor/cuda/pinned.h"

#include <algorithm>
#include <bit>

namespace hg::cuda {

void* PinnedMemory::allocate(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(bytes, 64));
  const std::lock_guard lock(mutex_);
  std::deque<void*>& freed = freed_[size];
  if (!freed.empty() && blocks_.at(freed.front()).last_use.reached()) {
    void* const p = freed.front();
    freed.pop_front();
    return p;
  }
  void* p = nullptr;
  check(cudaMallocHost(&p, size), "cudaMallocHost");
  blocks_.try_emplace(p).first->second.size = size;
  return p;
}

void PinnedMemory::deallocate(void* p, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  Block& block = blocks_.at(p);
  block.last_use.record(stream);
  freed_[block.size].push_back(p);
}

}  // namespace hg::cuda
