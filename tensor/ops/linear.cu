#include "tensor/cuda/elementwise.h"
#include "tensor/cuda/gemm.h"
#include "tensor/cuda/math.h"
#include "tensor/cuda/single_product.h"
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
  const cuda::Matrix a{x, inner, 1, 0}, b{w, 1, inner, 0};
  const cuda::Product c{y.data<float>(), width, 0};
  if (bias && cuda::single_product(rows, width, inner, a, b, c, bias, stream)) return;
  cuda::gemm(1, rows, width, inner, a, b, c, stream);
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
