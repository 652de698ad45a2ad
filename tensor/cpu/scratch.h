// Uninitialised working memory of a kernel, from the caching allocator.
#pragma once

#include <cstdint>

#include "tensor/allocator.h"
#include "tensor/base/no_copy.h"

namespace hg::cpu {

template <class T>
class Scratch : NoCopy {
 public:
  explicit Scratch(std::int64_t n)
      : data_(static_cast<T*>(allocator::allocate(static_cast<std::size_t>(n) * sizeof(T)))) {}
  ~Scratch() { allocator::deallocate(data_); }
  operator T*() const { return data_; }

 private:
  T* data_;
};

}  // namespace hg::cpu
