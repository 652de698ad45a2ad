// Kernels along one axis of a tensor seen as [outer, n, inner]: where rows are contiguous (inner ==
// 1), a warp takes a short one and a block a long one; else each thread takes a column, so that
// neighbours read neighbours.
#pragma once

#include "tensor/cuda/reduce.h"
#include "tensor/tensor.h"

namespace hg::cuda {

inline constexpr int kRowThreads = 128, kRowWarps = kRowThreads / kWarp;
// The longest row that a warp takes. Where races are looked for, blocks have more of the work.
#ifdef HG_CUDA_RACES
inline constexpr int kWarpRow = 8;
#else
inline constexpr int kWarpRow = 256;
#endif

// The elements of one row and how the threads that share it work together.
template <int kThreads>
struct SharedRow {  // by a warp or a whole block
  std::int64_t first;
  int n;
  __device__ int begin() const { return static_cast<int>(threadIdx.x) % kThreads; }
  __device__ int step() const { return kThreads; }
  __device__ std::int64_t at(int j) const { return first + j; }
  __device__ float sum(float v) const { return over_threads<kThreads>(v, Plus{}); }
  __device__ float max(float v) const { return over_threads<kThreads>(v, Greater{}); }
  __device__ int min(int v) const { return over_threads<kThreads>(v, Lesser{}); }
  __device__ bool leads() const { return begin() == 0; }
};
struct ThreadRow {  // one thread
  std::int64_t first, inner;
  int n;
  __device__ int begin() const { return 0; }
  __device__ int step() const { return 1; }
  __device__ std::int64_t at(int j) const { return first + j * inner; }
  __device__ float sum(float v) const { return v; }
  __device__ float max(float v) const { return v; }
  __device__ int min(int v) const { return v; }
  __device__ bool leads() const { return true; }
};

__device__ float row_max(const auto& row, const float* x) {
  float m = Greater::kNone;
  for (int j = row.begin(); j < row.n; j += row.step()) m = Greater{}(m, x[row.at(j)]);
  return row.max(m);
}
// The first place that is m, the largest, or NaN; n of an empty row.
__device__ int first_of(const auto& row, const float* x, float m) {
  int mine = row.n;
  for (int j = row.begin(); j < row.n && mine == row.n; j += row.step())
    if (!(x[row.at(j)] < m)) mine = j;
  return row.min(mine);
}
__device__ float row_sum(const auto& row, auto f) {  // of f(j)
  float sum = 0;
  for (int j = row.begin(); j < row.n; j += row.step()) sum += f(j);
  return row.sum(sum);
}
// sum of exp(x - shift)
__device__ float row_exp_sum(const auto& row, const float* x, float shift) {
  return row_sum(row, [&](int j) { return expf(x[row.at(j)] - shift); });
}

template <class Body>
__global__ void __launch_bounds__(kRowThreads) each_block_a_row(int n, Body body) {
  const std::int64_t row = blockIdx.x;
  body(SharedRow<kRowThreads>{row * n, n}, row);
}

template <class Body>
__global__ void __launch_bounds__(kRowThreads)
    each_warp_a_row(std::int64_t rows, int n, Body body) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kRowWarps + threadIdx.x / kWarp;
  if (row < rows) body(SharedRow<kWarp>{row * n, n}, row);
}

template <class Body>
__global__ void __launch_bounds__(kRowThreads)
    each_thread_a_row(std::int64_t rows, int n, std::int64_t inner, Body body) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kRowThreads + threadIdx.x;
  if (row >= rows) return;
  body(ThreadRow{row / inner * n * inner + row % inner, inner, n}, row);
}

inline int row_length(std::int64_t n) {
  require(n <= 0x7fffffff, "cuda", "an axis of {} is too long", n);
  return static_cast<int>(n);
}

// Contiguous rows of n. body(row, index): a struct whose __device__ operator() is a template over
// the kind of row.
template <class Body>
void along_rows(std::int64_t rows, std::int64_t n, Body body, CudaStream& stream) {
  if (n <= kWarpRow)
    launch(each_warp_a_row<Body>, blocks_for(rows, kRowWarps), kRowThreads, 0, stream, rows,
           row_length(n), body);
  else
    launch(each_block_a_row<Body>, blocks_for(rows, 1), kRowThreads, 0, stream, row_length(n),
           body);
}

// The same along any axis.
template <class Body>
void along_axis(const AxisView& view, Body body, CudaStream& stream) {
  if (view.inner == 1) return along_rows(view.outer, view.n, body, stream);
  const std::int64_t rows = view.outer * view.inner;
  launch(each_thread_a_row<Body>, blocks_for(rows, kRowThreads), kRowThreads, 0, stream, rows,
         row_length(view.n), view.inner, body);
}

// The same along `axis` of x, which an op has checked.
template <class Body>
void along_axis(const Tensor& x, int axis, Body body, CudaStream& stream) {
  along_axis(around(x.shape(), normalize_axis(axis, x.shape(), "cuda")), body, stream);
}

}  // namespace hg::cuda
