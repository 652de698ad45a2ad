#include "tensor/cuda/launch.h"
#include "tensor/ops/normalize_pixels.h"

namespace hg::ops {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    normalize(const std::uint8_t* pixels, const float* norm, float* y, std::int64_t n,
              std::int64_t plane, std::int64_t channels) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const std::int64_t c = i / plane % channels;
  y[i] = norm[c] * static_cast<float>(pixels[i]) + norm[channels + c];
}

}  // namespace

void NormalizePixels::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t n = in[0].numel(), plane = in[0].dim(2) * in[0].dim(3);
  if (n == 0) return;
  launch(normalize, cuda::blocks_for(n, kThreads), kThreads, 0, stream, in[0].data<std::uint8_t>(),
         in[1].data<float>(), out[0].data<float>(), n, plane, in[0].dim(1));
}

}  // namespace hg::ops
