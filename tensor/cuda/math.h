// Functions of one float that several kernels share.
#pragma once

#include <cuda_runtime.h>

namespace hg::cuda {

// Standard normal distribution, by erf, and its density.
__device__ inline float normal_cdf(float x) { return 0.5f * (1.0f + erff(x * 0.70710678118f)); }
__device__ inline float normal_pdf(float x) { return 0.39894228040f * expf(-0.5f * x * x); }

__device__ inline float gelu(float x) { return x * normal_cdf(x); }
__device__ inline float gelu_grad(float x) { return normal_cdf(x) + x * normal_pdf(x); }

}  // namespace hg::cuda
