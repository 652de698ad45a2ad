// Sums and maxima over a warp and over a block. A block's threads are a multiple of 32, and all of
// them call.
#pragma once

#include "tensor/cuda/launch.h"

namespace hg::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

struct Plus {
  static constexpr float kNone = 0;
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Greater {  // NaN wins, as on the CPU
  static constexpr float kNone = -INFINITY;
  __device__ float operator()(float a, float b) const { return b > a || b != b ? b : a; }
};

template <class Combine>
__device__ float over_warp(float v, Combine combine) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2)
    v = combine(v, __shfl_xor_sync(kAllLanes, v, lanes));
  return v;
}

// The result in every thread.
template <int kThreads, class Combine>
__device__ float over_block(float v, Combine combine) {
  constexpr int kWarps = kThreads / kWarp;
  HG_SHARED(float, partial, [kWarps]);
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
