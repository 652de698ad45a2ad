#include <cmath>

#include "tensor/cuda/launch.h"
#include "tensor/cuda/philox.h"
#include "tensor/ops/dropout.h"

namespace hg::ops {
namespace {

constexpr int kThreads = 256;

// Each thread draws one block of the stream, for the up to four elements whose draws lie in it.
__global__ void __launch_bounds__(kThreads)
    drop(const float* x, float* y, std::int64_t n, std::uint64_t key, std::uint64_t first,
         unsigned threshold, float scale) {
  const std::uint64_t block =
      first / 4 + static_cast<std::uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t i = static_cast<std::int64_t>(block * 4 - first);  // of the block's first draw
  if (i >= n) return;
  const uint4 draws = cuda::draw_block(key, block);
  const unsigned draw[4] = {draws.x, draws.y, draws.z, draws.w};
  for (int w = 0; w < 4; ++w)
    if (i + w >= 0 && i + w < n) y[i + w] = draw[w] >> 8 >= threshold ? x[i + w] * scale : 0;
}

}  // namespace

void Dropout::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t n = in[0].numel();
  if (n == 0) return;
  const auto threshold = static_cast<unsigned>(std::ceil(probability * 0x1p24));
  const std::uint64_t end = first + static_cast<std::uint64_t>(n);
  const auto blocks = static_cast<std::int64_t>((end + 3) / 4 - first / 4);
  launch(drop, cuda::blocks_for(blocks, kThreads), kThreads, 0, stream, in[0].data<float>(),
         out[0].data<float>(), n, key, first, threshold, static_cast<float>(1 / (1 - probability)));
}

}  // namespace hg::ops
