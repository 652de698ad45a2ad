// Matrix products by cuBLAS, on row-major matrices.
#pragma once

#include <cstdint>
#include <limits>

#include "tensor/base/error.h"
#include "tensor/cuda/stream.h"

namespace hg::cuda {

// As cuBLAS takes extents.
inline int as_int(std::int64_t extent) {
  require(extent <= std::numeric_limits<int>::max(), "gemm", "an extent of {} is too large",
          extent);
  return static_cast<int>(extent);
}

// One of the two strides is 1; the matrices of a batch lie batch_stride apart.
struct Matrix {
  const float* data;
  std::int64_t row_stride, column_stride, batch_stride;
};

// Where products go: rows of contiguous columns.
struct Product {
  float* data;
  std::int64_t row_stride, batch_stride;
  bool add = false;  // to what is there
};

// c [m, n] = a [m, k] b [k, n] for each of the batch
void gemm(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a,
          const Matrix& b, const Product& c, CudaStream& stream);
// The same into a dense c [batch, m, n].
void gemm(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a,
          const Matrix& b, float* c, CudaStream& stream);

}  // namespace hg::cuda
