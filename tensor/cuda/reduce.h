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

// The result in every thread.
template <int kThreads, class T, class Combine>
__device__ T over_block(T v, Combine combine) {
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

template <int kThreads>
__device__ float block_sum(float v) {
  return over_block<kThreads>(v, Plus{});
}
template <int kThreads>
__device__ float block_max(float v) {
  return over_block<kThreads>(v, Greater{});
}

}  // namespace hg::cuda
