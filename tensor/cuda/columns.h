// Sums over the rows of matrices, per column, always in the same order.
#pragma once

#include "tensor/cuda/launch.h"

namespace hg::cuda {

inline constexpr int kColumns = 32, kColumnRows = 8;

// A block sums 32 columns: its warps take turns at the rows, and their sums meet in shared memory.
template <class Terms>
__global__ void __launch_bounds__(kColumns* kColumnRows)
    sum_columns(Terms terms, std::int64_t rows, std::int64_t width) {
  HG_SHARED(float, partial, [Terms::kSums][kColumnRows][kColumns]);
  const std::int64_t column = std::int64_t{blockIdx.x} * kColumns + threadIdx.x;
  float sums[Terms::kSums] = {};
  if (column < width)
    for (std::int64_t r = threadIdx.y; r < rows; r += kColumnRows) terms.add(r, column, sums);
  for (int k = 0; k < Terms::kSums; ++k) partial[k][threadIdx.y][threadIdx.x] = sums[k];
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
  for (int k = 0; k < Terms::kSums; ++k)
    for (int w = 1; w < kColumnRows; ++w) sums[k] += partial[k][w][threadIdx.x];
  terms.store(column, sums);
}

// Terms: a struct with kSums sums a column, and __device__ functions add(row, column, sums) and
// store(column, sums).
template <class Terms>
void column_sums(const Terms& terms, std::int64_t rows, std::int64_t width, CudaStream& stream) {
  launch(sum_columns<Terms>, blocks_for(width, kColumns), dim3(kColumns, kColumnRows), 0, stream,
         terms, rows, width);
}

}  // namespace hg::cuda
