#include "tensor/cuda/memory.h"

#include <algorithm>
#include <bit>

#include "tensor/cuda/check.h"

namespace hg::cuda {
namespace {

// Eight sizes an octave, at least 512 bytes apart: at most one eighth of a large block is wasted.
std::size_t rounded(std::size_t bytes) {
  const std::size_t step = std::max<std::size_t>(512, std::bit_floor(bytes) / 8);
  return (std::max<std::size_t>(bytes, 1) + step - 1) / step * step;
}

}  // namespace

void* DeviceMemory::from_device(std::size_t bytes) {
  void* p = nullptr;
  cudaError_t error = cudaMalloc(&p, bytes);
  if (error == cudaErrorMemoryAllocation) {
    release_all();
    error = cudaMalloc(&p, bytes);
  }
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // or it would be reported again by the next launch
    fail("cuda", "no device memory for {} bytes", bytes);
  }
  check(error, "cudaMalloc");
  return p;
}

void* DeviceMemory::allocate(std::size_t bytes) {
  if (!cached_) return from_device(std::max<std::size_t>(bytes, 1));
  const std::lock_guard lock(mutex_);
  const std::size_t size = rounded(bytes);
  std::vector<void*>& free = free_[size];
  if (!free.empty()) {
    void* const p = free.back();
    free.pop_back();
    return p;
  }
  void* const p = from_device(size);
  sizes_.emplace(p, size);
  return p;
}

void DeviceMemory::deallocate(void* p) noexcept {
  if (!p) return;
  if (!cached_) {
    static_cast<void>(cudaFree(p));
    return;
  }
  const std::lock_guard lock(mutex_);
  free_[sizes_.at(p)].push_back(p);
}

void DeviceMemory::release_cached() {
  const std::lock_guard lock(mutex_);
  release_all();
}

void DeviceMemory::release_all() {
  for (auto& [size, blocks] : free_) {
    for (void* p : blocks) {
      static_cast<void>(cudaFree(p));
      sizes_.erase(p);
    }
    blocks.clear();
  }
}

}  // namespace hg::cuda
