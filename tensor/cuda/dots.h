// Sums of x z along rows and along columns, or of x alone where z is null.
#pragma once

#include "tensor/cuda/along_axis.h"
#include "tensor/cuda/columns.h"

namespace hg::cuda {

struct RowDots {
  const float *x, *z;
  float* y;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const float sum =
        row_sum(row, [&](int j) { return z ? x[row.at(j)] * z[row.at(j)] : x[row.at(j)]; });
    if (row.leads()) y[index] = sum;
  }
};

struct ColumnDots {
  static constexpr int kSums = 1;
  const float *x, *z;
  float* y;
  std::int64_t width;
  __device__ void add(std::int64_t row, std::int64_t column, float* sums) const {
    const std::int64_t at = row * width + column;
    sums[0] += z ? x[at] * z[at] : x[at];
  }
  __device__ void store(std::int64_t column, const float* sums) const { y[column] = sums[0]; }
};

// y [n]: sums over the rows of x z [rows, n]; z may be null
inline void sum_rows(const float* x, const float* z, std::int64_t rows, std::int64_t n, float* y,
                     CudaStream& stream) {
  if (n == 1) return along_rows(1, rows, RowDots{x, z, y}, stream);
  column_sums(ColumnDots{x, z, y, n}, rows, n, stream);
}

}  // namespace hg::cuda
