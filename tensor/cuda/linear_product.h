// The product of a linear layer together with its bias, by a kernel of cublasLt.
#pragma once

#include <compare>
#include <cstdint>

#include "tensor/cuda/stream.h"

namespace hg::cuda {

struct LinearExtents {
  std::int64_t rows, width, inner;
  auto operator<=>(const LinearExtents&) const = default;
};

// y [rows, width] = x [rows, inner] w [width, inner]^T + bias [width]. False, and nothing is done,
// if cublasLt has no kernel for such extents.
bool linear_product(const LinearExtents& extents, const float* x, const float* w, const float* bias,
                    float* y, CudaStream& stream);

}  // namespace hg::cuda
