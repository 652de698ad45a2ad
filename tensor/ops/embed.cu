#include "tensor/cuda/launch.h"
#include "tensor/ops/embed.h"

namespace hg::ops {
namespace {

constexpr int kThreads = 256;

struct Tokens {  // [B, tokens, width], the class token first
  std::int64_t images, tokens, width, positions;
  const std::int64_t* keep;  // [B, tokens - 1], the patch of each token; null: in order
};

// The position's row of token t, or -1 where keep names none.
__device__ std::int64_t position_of(const Tokens& s, std::int64_t image, std::int64_t t) {
  if (t == 0 || !s.keep) return t;
  const std::int64_t patch = s.keep[image * (s.tokens - 1) + t - 1];
  return patch >= 0 && patch + 1 < s.positions ? patch + 1 : -1;
}

// A patch index out of range gives NaN: to throw, the host would have to wait.
__global__ void __launch_bounds__(kThreads)
    embed_forward(const float* patches, const float* cls, const float* positions, float* y,
                  std::int64_t n, Tokens s) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const std::int64_t c = i % s.width, t = i / s.width % s.tokens, image = i / (s.width * s.tokens);
  const float token = t == 0 ? cls[c] : patches[(image * (s.tokens - 1) + t - 1) * s.width + c];
  const std::int64_t position = position_of(s, image, t);
  y[i] = position < 0 ? NAN : token + positions[position * s.width + c];
}

__global__ void __launch_bounds__(kThreads)
    patch_gradients(const float* dy, float* dpatches, std::int64_t n, Tokens s) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const std::int64_t image = i / (s.width * (s.tokens - 1));
  dpatches[i] = dy[i + (image + 1) * s.width];
}

// Each thread owns an element of a position and adds over the images, in order.
__global__ void __launch_bounds__(kThreads)
    position_gradients(const float* dy, float* dcls, float* dpositions, std::int64_t n, Tokens s) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const std::int64_t position = i / s.width, c = i % s.width;
  const bool direct = position == 0 || !s.keep;
  float sum = 0;
  for (std::int64_t image = 0; image < s.images; ++image)
    for (std::int64_t t = direct ? position : 1; t < (direct ? position + 1 : s.tokens); ++t)
      if (direct || position_of(s, image, t) == position)
        sum += dy[(image * s.tokens + t) * s.width + c];
  dpositions[i] = sum;
  if (position == 0) dcls[c] = sum;
}

}  // namespace

void EmbedTokens::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t n = out[0].numel();
  const Tokens s{out[0].dim(0), out[0].dim(1), out[0].dim(2), in[2].dim(1),
                 in.size() == 4 ? in[3].data<std::int64_t>() : nullptr};
  launch(embed_forward, cuda::blocks_for(n, kThreads), kThreads, 0, stream, in[0].data<float>(),
         in[1].data<float>(), in[2].data<float>(), out[0].data<float>(), n, s);
}

void EmbedTokensBackward::cuda(In in, Out out, CudaStream& stream) const {
  const Tokens s{in[0].dim(0), in[0].dim(1), in[0].dim(2), positions,
                 in.size() == 2 ? in[1].data<std::int64_t>() : nullptr};
  const std::int64_t patches = out[0].numel(), n = out[2].numel();
  const float* const dy = in[0].data<float>();
  launch(patch_gradients, cuda::blocks_for(patches, kThreads), kThreads, 0, stream, dy,
         out[0].data<float>(), patches, s);
  launch(position_gradients, cuda::blocks_for(n, kThreads), kThreads, 0, stream, dy,
         out[1].data<float>(), out[2].data<float>(), n, s);
}

}  // namespace hg::ops
