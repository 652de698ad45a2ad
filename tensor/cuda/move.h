// Kernels that only move elements: of any type, by its size.
#pragma once

#include "tensor/cuda/launch.h"
#include "tensor/op.h"

namespace hg::cuda {

inline constexpr int kMoveThreads = 256;

// to[i] = from[place(i)]. Where an index that the host has not seen points nowhere, place is
// negative and the element becomes bytes of ones, a NaN: to throw, the host would have to wait.
// kScatter: the same into places, to[place(i)] = from[i].
template <bool kScatter, class T, class Place>
__global__ void __launch_bounds__(kMoveThreads)
    move_elements(const T* from, T* to, std::int64_t n, Place place) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kMoveThreads + threadIdx.x;
  if (i >= n) return;
  const std::int64_t at = place(i);
  if constexpr (kScatter)
    to[at] = from[i];
  else
    to[i] = at < 0 ? static_cast<T>(-1) : from[at];
}

// Calls f.operator()<T>() with an integer as wide as the elements.
void dispatch_width(DType dtype, auto&& f) {
  if (size_of(dtype) == 8) return f.template operator()<std::uint64_t>();
  if (size_of(dtype) == 4) return f.template operator()<std::uint32_t>();
  f.template operator()<std::uint8_t>();
}

template <bool kScatter, class Place>
void move_elements(const Tensor& from, const Tensor& to, Place place, CudaStream& stream) {
  const std::int64_t n = (kScatter ? from : to).numel();
  dispatch_width(from.dtype(), [&]<class T>() {
    launch(move_elements<kScatter, T, Place>, blocks_for(n, kMoveThreads), kMoveThreads, 0, stream,
           static_cast<const T*>(from.raw()), static_cast<T*>(to.raw()), n, place);
  });
}
void gather_elements(const Tensor& from, const Tensor& to, auto place, CudaStream& stream) {
  move_elements<false>(from, to, place, stream);
}
void scatter_elements(const Tensor& from, const Tensor& to, auto place, CudaStream& stream) {
  move_elements<true>(from, to, place, stream);
}

}  // namespace hg::cuda
