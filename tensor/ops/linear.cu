#include "tensor/cuda/elementwise.h"
#include "tensor/cuda/gemm.h"
#include "tensor/cuda/math.h"
#include "tensor/ops/linear.h"

namespace hg::ops {
namespace {

// y = x + bias, where there is one, and then GELU, whose argument goes to pre. cuBLAS has a GELU of
// its own, but by tanh.
template <bool kGelu>
struct Finish {
  using Indexed = void;
  const float* bias;  // may be null
  float* pre;         // may be null
  std::int64_t width;
  __device__ float operator()(std::int64_t i, float x) const {
    const float v = bias ? x + bias[i % width] : x;
    if (pre) pre[i] = v;
    return kGelu ? cuda::gelu(v) : v;
  }
};

}  // namespace

void Linear::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t inner = in[1].dim(1), width = in[1].dim(0);
  const cuda::Matrix x{in[0].data<float>(), inner, 1, 0}, w{in[1].data<float>(), 1, inner, 0};
  float* const y = out[0].data<float>();
  cuda::gemm(1, in[0].numel() / inner, width, inner, x, w, y, stream);
  if (in.size() < 3 && !gelu) return;
  const float* const bias = in.size() == 3 ? in[2].data<float>() : nullptr;
  float* const pre = keep_pre ? out[1].data<float>() : nullptr;
  if (gelu) return cuda::elementwise<1>(out, out[0], Finish<true>{bias, pre, width}, stream);
  cuda::elementwise<1>(out, out[0], Finish<false>{bias, nullptr, width}, stream);
}

}  // namespace hg::ops
