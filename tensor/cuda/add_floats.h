// Kernels on the side stream: gradients put together to be sent, and sums of what has come. Each
// element is added in an order that the caller fixes, so the bits do not depend on a network.
#pragma once

#include <span>

#include "tensor/cuda/stream.h"
#include "tensor/cuda_peers.h"

namespace hg::cuda {

void pack_floats(std::span<const FloatPart> parts, float* to, CudaStream& stream);
// sum may be left or right.
void add_floats(const float* left, const float* right, float* sum, std::int64_t n,
                CudaStream& stream);

}  // namespace hg::cuda
