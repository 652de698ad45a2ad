// Sums over the rows of matrices, per column, always in the same order.
#pragma once

#include "tensor/cuda/launch.h"

namespace hg::cuda {

inline constexpr int kColumns = 32, kColumnRows = 8;
inline constexpr int kMostMatrices = 65535;  // a grid's limit in y

// A block sums 32 columns of one matrix: its warps take turns at the rows, and their sums meet in
// shared memory.
template <class Terms>
__global__ void __launch_bounds__(kColumns* kColumnRows)
    sum_columns(Terms terms, std::int64_t rows, std::int64_t width) {
  HG_SHARED(float, partial, [Terms::kSums][kColumnRows][kColumns]);
  const std::int64_t column = std::int64_t{blockIdx.x} * kColumns + threadIdx.x;
  const std::int64_t matrix = blockIdx.y;
  float sums[Terms::kSums] = {};
  if (column < width)
    for (std::int64_t r = threadIdx.y; r < rows; r += kColumnRows)
      terms.add(matrix * rows + r, column, sums);
  for (int k = 0; k < Terms::kSums; ++k) partial[k][threadIdx.y][threadIdx.x] = sums[k];
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
  for (int k = 0; k < Terms::kSums; ++k)
    for (int w = 1; w < kColumnRows; ++w) sums[k] += partial[k][w][threadIdx.x];
  terms.store(matrix * width + column, sums);
}

// Of each of `matrices` [rows, width], one behind the other. Terms: a struct with kSums sums a
// column, and __device__ functions add(row, column, sums) and store(column, sums); rows to add and
// columns to store count through all matrices.
template <class Terms>
void column_sums(const Terms& terms, std::int64_t matrices, std::int64_t rows, std::int64_t width,
                 CudaStream& stream) {
  require(matrices <= kMostMatrices, "cuda", "sums over the rows of {} matrices, at most {}",
          matrices, kMostMatrices);
  launch(sum_columns<Terms>, dim3(blocks_for(width, kColumns), static_cast<unsigned>(matrices)),
         dim3(kColumns, kColumnRows), 0, stream, terms, rows, width);
}
void column_sums(const auto& terms, std::int64_t rows, std::int64_t width, CudaStream& stream) {
  column_sums(terms, 1, rows, width, stream);
}

}  // namespace hg::cuda
