#include "tensor/cuda/elementwise.h"
#include "tensor/cuda/gemm.h"
#include "tensor/cuda/linear_product.h"
#include "tensor/cuda/math.h"
#include "tensor/ops/linear.h"

namespace hg::ops {
namespace {

struct AddBias {
  using Indexed = void;
  const float* bias;
  std::int64_t width;
  __device__ float operator()(std::int64_t i, float x) const { return x + bias[i % width]; }
};

struct Gelu {
  __device__ float operator()(float x) const { return cuda::gelu(x); }
};

// y = x W^T + b
void affine(In in, const Tensor& y, CudaStream& stream) {
  const std::int64_t inner = in[1].dim(1), width = in[1].dim(0), rows = in[0].numel() / inner;
  const float *const x = in[0].data<float>(), *const w = in[1].data<float>();
  const float* const bias = in.size() == 3 ? in[2].data<float>() : nullptr;
  if (bias && cuda::linear_product({rows, width, inner}, x, w, bias, y.data<float>(), stream))
    return;
  cuda::gemm(1, rows, width, inner, {x, inner, 1, 0}, {w, 1, inner, 0}, y.data<float>(), stream);
  if (bias) cuda::elementwise<1>(In(&y, 1), y, AddBias{bias, width}, stream);
}

}  // namespace

// cublasLt could apply a GELU with the bias, but its GELU is the approximation by tanh.
void Linear::cuda(In in, Out out, CudaStream& stream) const {
  const Tensor& pre = keep_pre ? out[1] : out[0];
  affine(in, pre, stream);
  if (gelu) cuda::elementwise<1>(In(&pre, 1), out[0], Gelu{}, stream);
}

}  // namespace hg::ops
