// Caching allocator of host memory. Blocks return to the arena of the thread that asked for them,
// whichever thread frees them, so a steady training step finds every size it needs in its own arena
// and never reaches the system's allocator again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace hg {

namespace allocator {
void* allocate(std::size_t bytes);  // 64-byte aligned
void deallocate(void* p) noexcept;
// Gives the cached blocks of this thread, and of those that have ended, back to the system. Other
// threads do so when they next need a block that they have not cached.
void release_cached();

struct Stats {
  std::uint64_t system_calls;    // blocks ever asked of the system
  std::uint64_t bytes_reserved;  // held from the system: in use + cached
  std::uint64_t bytes_in_use;
};
Stats stats();
}  // namespace allocator

// For standard containers and shared_ptr control blocks on the path of every op.
template <class T>
struct CachedAllocator {
  using value_type = T;
  CachedAllocator() = default;
  template <class U>
  CachedAllocator(const CachedAllocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(allocator::allocate(n * sizeof(T))); }
  void deallocate(T* p, std::size_t) noexcept { allocator::deallocate(p); }
  template <class U>
  bool operator==(const CachedAllocator<U>&) const {
    return true;
  }
};

template <class T>
using CachedVector = std::vector<T, CachedAllocator<T>>;

}  // namespace hg
