// Sums over the rows of matrices, per column, always in the same order: long columns in parts, and
// then over the parts.
#pragma once

#include <algorithm>

#include "tensor/cuda/launch.h"
#include "tensor/tensor.h"

namespace hg::cuda {

inline constexpr int kColumns = 32, kColumnRows = 8;
inline constexpr int kMostMatrices = 65535;  // a grid's limit in y, and in z
// Of so many rows at least, so that a thread has some to add up; and so many that a narrow matrix
// keeps a large device busy. By sizes alone: bits are the same on any device.
inline constexpr std::int64_t kLeastPart = 64, kMostParts = 128;

inline std::int64_t column_parts(std::int64_t rows) {
  return std::clamp(rows / kLeastPart, std::int64_t{1}, kMostParts);
}

// A block sums 32 columns of one part of a matrix: its warps take turns at the rows, and their sums
// meet in shared memory. Store: called as store(matrix, part, column, sums).
template <class Terms, class Store>
__global__ void __launch_bounds__(kColumns* kColumnRows)
    sum_columns(Terms terms, Store store, std::int64_t rows, std::int64_t width) {
  HG_SHARED(float, partial, [Terms::kSums][kColumnRows][kColumns]);
  const std::int64_t column = std::int64_t{blockIdx.x} * kColumns + threadIdx.x;
  const std::int64_t matrix = blockIdx.y, part = blockIdx.z, parts = gridDim.z;
  const std::int64_t end = rows * (part + 1) / parts;
  float sums[Terms::kSums] = {};
  if (column < width)
    for (std::int64_t r = rows * part / parts + threadIdx.y; r < end; r += kColumnRows)
      terms.add(matrix * rows + r, column, sums);
  for (int k = 0; k < Terms::kSums; ++k) partial[k][threadIdx.y][threadIdx.x] = sums[k];
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
  for (int k = 0; k < Terms::kSums; ++k)
    for (int w = 1; w < kColumnRows; ++w) sums[k] += partial[k][w][threadIdx.x];
  store(matrix, part, column, sums);
}

// What is summed is the result.
template <class Terms>
struct StoreSums {
  Terms terms;
  std::int64_t width;
  __device__ void operator()(std::int64_t matrix, std::int64_t, std::int64_t column,
                             const float* sums) const {
    terms.store(matrix * width + column, sums);
  }
};

// Sums of parts: [kSums][matrices][parts][width]
template <int kCount>
struct PartSums {
  float* data;
  std::int64_t matrices, parts, width;
  __device__ float* at(int sum, std::int64_t row, std::int64_t column) const {
    return data + (sum * matrices * parts + row) * width + column;
  }
  __device__ void operator()(std::int64_t matrix, std::int64_t part, std::int64_t column,
                             const float* sums) const {
    for (int k = 0; k < kCount; ++k) *at(k, matrix * parts + part, column) = sums[k];
  }
};

// Those parts as terms of a sum.
template <class Terms>
struct PartTerms {
  static constexpr int kSums = Terms::kSums;
  Terms terms;
  PartSums<kSums> sums_of_parts;
  __device__ void add(std::int64_t row, std::int64_t column, float* sums) const {
    for (int k = 0; k < kSums; ++k) sums[k] += *sums_of_parts.at(k, row, column);
  }
  __device__ void store(std::int64_t column, const float* sums) const { terms.store(column, sums); }
};

template <class Terms, class Store>
void launch_columns(const Terms& terms, const Store& store, std::int64_t matrices,
                    std::int64_t parts, std::int64_t rows, std::int64_t width, CudaStream& stream) {
  const dim3 grid(blocks_for(width, kColumns), static_cast<unsigned>(matrices),
                  static_cast<unsigned>(parts));
  launch(sum_columns<Terms, Store>, grid, dim3(kColumns, kColumnRows), 0, stream, terms, store,
         rows, width);
}

// The second step: of sums of parts that a kernel has made.
template <class Terms>
void sum_parts(const Terms& terms, const PartSums<Terms::kSums>& sums, CudaStream& stream) {
  launch_columns(PartTerms<Terms>{terms, sums}, StoreSums<Terms>{terms, sums.width}, sums.matrices,
                 1, sums.parts, sums.width, stream);
}

// Of each of `matrices` [rows, width], one behind the other. Terms: a struct with kSums sums a
// column, and __device__ functions add(row, column, sums) and store(column, sums); rows to add and
// columns to store count through all matrices.
template <class Terms>
void column_sums(const Terms& terms, std::int64_t matrices, std::int64_t rows, std::int64_t width,
                 CudaStream& stream) {
  require(matrices <= kMostMatrices, "cuda", "sums over the rows of {} matrices, at most {}",
          matrices, kMostMatrices);
  // Many matrices keep the device busy without parts.
  const std::int64_t parts =
      std::min(column_parts(rows),
               std::max<std::int64_t>(1, kMostParts / std::max<std::int64_t>(1, matrices)));
  if (parts == 1)
    return launch_columns(terms, StoreSums<Terms>{terms, width}, matrices, 1, rows, width, stream);
  const Tensor kept =
      Tensor::empty({Terms::kSums, matrices, parts, width}, DType::f32, Device::cuda);
  const PartSums<Terms::kSums> sums{kept.data<float>(), matrices, parts, width};
  launch_columns(terms, sums, matrices, parts, rows, width, stream);
  sum_parts(terms, sums, stream);
}
void column_sums(const auto& terms, std::int64_t rows, std::int64_t width, CudaStream& stream) {
  column_sums(terms, 1, rows, width, stream);
}

}  // namespace hg::cuda
