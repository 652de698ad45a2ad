// out[i] = f(in[0][i], ...) over whole contiguous f32 tensors, four elements a thread.
#pragma once

#include "tensor/cuda/launch.h"
#include "tensor/op.h"

namespace hg::cuda {

inline constexpr int kElementThreads = 256;

template <int kInputs>
struct InputPointers {
  const float* p[kInputs];
};

// f(values...), or f(i, values...) for an F with a member type Indexed: one that reads more by its
// element's index.
template <class F, class... Values>
__device__ float apply(const F& f, std::int64_t i, Values... values) {
  if constexpr (requires { typename F::Indexed; })
    return f(i, values...);
  else
    return f(values...);
}

__device__ float apply_at(const auto& f, const InputPointers<1>& in, std::int64_t i) {
  return apply(f, i, in.p[0][i]);
}
__device__ float apply_at(const auto& f, const InputPointers<2>& in, std::int64_t i) {
  return apply(f, i, in.p[0][i], in.p[1][i]);
}

__device__ float4 apply_four(const auto& f, const InputPointers<1>& in, std::int64_t i) {
  const float4 a = reinterpret_cast<const float4*>(in.p[0])[i];
  i *= 4;
  return make_float4(apply(f, i, a.x), apply(f, i + 1, a.y), apply(f, i + 2, a.z),
                     apply(f, i + 3, a.w));
}
__device__ float4 apply_four(const auto& f, const InputPointers<2>& in, std::int64_t i) {
  const float4 a = reinterpret_cast<const float4*>(in.p[0])[i];
  const float4 b = reinterpret_cast<const float4*>(in.p[1])[i];
  i *= 4;
  return make_float4(apply(f, i, a.x, b.x), apply(f, i + 1, a.y, b.y), apply(f, i + 2, a.z, b.z),
                     apply(f, i + 3, a.w, b.w));
}

// All pointers are multiples of 16 bytes; the thread after the last full four does the tail.
template <int kInputs, class F>
__global__ void __launch_bounds__(kElementThreads)
    elementwise_fours(InputPointers<kInputs> in, float* out, std::int64_t n, F f) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kElementThreads + threadIdx.x, fours = n / 4;
  if (i < fours) reinterpret_cast<float4*>(out)[i] = apply_four(f, in, i);
  if (i == fours)
    for (std::int64_t j = 4 * fours; j < n; ++j) out[j] = apply_at(f, in, j);
}

template <int kInputs, class F>
__global__ void __launch_bounds__(kElementThreads)
    elementwise_singles(InputPointers<kInputs> in, float* out, std::int64_t n, F f) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kElementThreads + threadIdx.x;
  if (i < n) out[i] = apply_at(f, in, i);
}

inline bool in_fours(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

// f is a struct with a __device__ operator(); it takes as many floats as there are inputs.
template <int kInputs, class F>
void elementwise(In in, const Tensor& out, F f, CudaStream& stream) {
  const std::int64_t n = out.numel();
  if (n == 0) return;
  InputPointers<kInputs> pointers;
  bool fours = in_fours(out.data<float>());
  for (int i = 0; i < kInputs; ++i) {
    pointers.p[i] = in[i].data<float>();
    fours = fours && in_fours(pointers.p[i]);
  }
  if (fours)
    launch(elementwise_fours<kInputs, F>, blocks_for(n / 4 + 1, kElementThreads), kElementThreads,
           0, stream, pointers, out.data<float>(), n, f);
  else
    launch(elementwise_singles<kInputs, F>, blocks_for(n, kElementThreads), kElementThreads, 0,
           stream, pointers, out.data<float>(), n, f);
}

}  // namespace hg::cuda
