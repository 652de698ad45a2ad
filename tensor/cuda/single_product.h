// A single matrix product, perhaps with a bias, by a kernel of cublasLt. It may split a long inner
// extent among blocks, which gradients of weights need: they are small, and sums over all rows.
#pragma once

#include "tensor/cuda/gemm.h"

namespace hg::cuda {

// c [m, n] = a [m, k] b [k, n] + bias [n], or without one where it is null; added to c where c.add.
// False, and nothing is done, if cublasLt has no kernel for such matrices.
bool single_product(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a,
                    const Matrix& b, const Product& c, const float* bias, CudaStream& stream);

// A row-major matrix as cuBLAS sees it: its transpose, column-major.
struct Side {
  cublasOperation_t op;
  int ld;
  auto operator<=>(const Side&) const = default;
};
Side side_of(const Matrix& matrix, std::int64_t rows, std::int64_t columns);

}  // namespace hg::cuda
