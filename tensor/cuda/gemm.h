// Matrix products by cuBLAS, on row-major matrices.
#pragma once

#include <cstdint>

#include "tensor/cuda/stream.h"

namespace hg::cuda {

// One of the two strides is 1; the matrices of a batch lie batch_stride apart.
struct Matrix {
  const float* data;
  std::int64_t row_stride, column_stride, batch_stride;
};

// c [batch, m, n] = a [m, k] b [k, n] for each of the batch
void gemm(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a,
          const Matrix& b, float* c, CudaStream& stream);

}  // namespace hg::cuda
