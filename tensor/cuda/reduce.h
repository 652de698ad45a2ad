// Sums and extremes over a warp and over a block. A block's threads are a multiple of 32, and all
// of them call.
#pragma once

#include "tensor/cuda/launch.h"

namespace hg::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Greater {  // NaN wins, as on the CPU
  static constexpr float kNone = -INFINITY;
  template <class T>
  __device__ T operator()(T a, T b) const {
    return b > a || b != b ? b : a;
  }
};
struct Lesser {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};

template <class T, class Combine>
__device__ T over_warp(T v, Combine combine) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2)
    v = combine(v, __shfl_xor_sync(kAllLanes, v, lanes));
  return v;
}

// x . y, in every lane.
__device__ inline float warp_dot(const float* x, const float* y, int n) {
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x) % kWarp; i < n; i += kWarp) sum += x[i] * y[i];
  return over_warp(sum, Plus{});
}

// Over a warp or a block of so many threads; the result in every one.
template <int kThreads, class T, class Combine>
__device__ T over_threads(T v, Combine combine) {
  if constexpr (kThreads == kWarp) return over_warp(v, combine);
  constexpr int kWarps = kThreads / kWarp;
  HG_SHARED(T, partial, [kWarps]);
  v = over_warp(v, combine);
  __syncthreads();  // an earlier call's readers are done
  if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = v;
  __syncthreads();
  v = partial[0];
  for (int w = 1; w < kWarps; ++w) v = combine(v, partial[w]);
  return v;
}

}  // namespace hg::cuda
