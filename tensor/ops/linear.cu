#include "tensor/cuda/gemm.h"
#include "tensor/cuda/launch.h"
#include "tensor/cuda/math.h"
#include "tensor/ops/linear.h"

namespace hg::ops {
namespace {

constexpr int kThreads = 256;

// y += bias, then GELU; its argument goes to pre. bias and pre may be null. cuBLAS has a GELU of
// its own, but by tanh.
template <bool kGelu>
__global__ void __launch_bounds__(kThreads)
    finish_linear(float* y, const float* bias, float* pre, std::int64_t n, std::int64_t width) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float v = bias ? y[i] + bias[i % width] : y[i];
  if (pre) pre[i] = v;
  y[i] = kGelu ? cuda::gelu(v) : v;
}

}  // namespace

void Linear::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t inner = in[1].dim(1), width = in[1].dim(0), n = out[0].numel();
  const cuda::Matrix x{in[0].data<float>(), inner, 1, 0}, w{in[1].data<float>(), 1, inner, 0};
  float* const y = out[0].data<float>();
  cuda::gemm(1, in[0].numel() / inner, width, inner, x, w, y, stream);
  if (in.size() < 3 && !gelu) return;
  const float* const bias = in.size() == 3 ? in[2].data<float>() : nullptr;
  float* const pre = keep_pre ? out[1].data<float>() : nullptr;
  launch(gelu ? finish_linear<true> : finish_linear<false>, cuda::blocks_for(n, kThreads), kThreads,
         0, stream, y, bias, pre, n, width);
}

}  // namespace hg::ops
