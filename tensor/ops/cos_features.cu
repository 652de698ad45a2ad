#include "tensor/cuda/elementwise.h"
#include "tensor/cuda/reduce.h"
#include "tensor/ops/cos_features.h"

namespace hg::ops {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / cuda::kWarp;

struct Angle {
  float cosine, sine;
};

// Of tokens, counted through the batch. An id out of range makes its token NaN: to throw, the host
// would have to wait.
struct Positions {
  const std::int64_t* ids;  // null: position = index
  std::int64_t count, period;
  __device__ Angle angle(std::int64_t token) const {
    const std::int64_t position = ids ? ids[token % count] : token % count;
    const float half_turns = static_cast<float>(position + 1) / static_cast<float>(2 * period);
    Angle angle;
    sincospif(position >= 0 && position < period ? half_turns : NAN, &angle.sine, &angle.cosine);
    return angle;
  }
};

// f of single floats, or of each of four.
template <class F, class... Floats>
__device__ float each(F f, float x, Floats... more) {
  return f(x, more...);
}
template <class F, class... Fours>
__device__ float4 each(F f, float4 x, Fours... more) {
  return make_float4(f(x.x, more.x...), f(x.y, more.y...), f(x.z, more.z...), f(x.w, more.w...));
}

// A warp takes a token. V: float or float4; `width` of them are a head.
template <class V>
__global__ void __launch_bounds__(kThreads)
    forward(const V* x, V* y, std::int64_t tokens, int heads, int width, Positions positions) {
  const std::int64_t token = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / cuda::kWarp;
  if (token >= tokens) return;
  const Angle a = positions.angle(token);
  const int row = heads * width;
  for (int i = threadIdx.x % cuda::kWarp; i < row; i += cuda::kWarp) {
    const V v = x[token * row + i];
    V* const to = y + 2 * token * row + i / width * width + i;
    to[0] = each([&](float s) { return (s < 0 ? 0 : s) * a.cosine; }, v);
    to[width] = each([&](float s) { return (s < 0 ? 0 : s) * a.sine; }, v);
  }
}

template <class V>
__global__ void __launch_bounds__(kThreads)
    backward(const V* dy, const V* x, V* dx, std::int64_t tokens, int heads, int width,
             Positions positions) {
  const std::int64_t token = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / cuda::kWarp;
  if (token >= tokens) return;
  const Angle a = positions.angle(token);
  const int row = heads * width;
  for (int i = threadIdx.x % cuda::kWarp; i < row; i += cuda::kWarp) {
    const V* const g = dy + 2 * token * row + i / width * width + i;
    const auto slope = [&](float s, float by_cosine, float by_sine) {
      return s > 0 ? by_cosine * a.cosine + by_sine * a.sine : 0;
    };
    dx[token * row + i] = each(slope, x[token * row + i], g[0], g[width]);
  }
}

Positions positions_of(In in, std::int64_t period) {
  if (in.size() == 1) return {nullptr, in[0].dim(1), period};
  return {in[1].data<std::int64_t>(), in[1].numel(), period};
}

// Calls f.operator()<V>(floats in a V): float4 where heads and pointers allow.
void dispatch_fours(std::int64_t width, std::initializer_list<const Tensor*> tensors, auto&& f) {
  bool fours = width % 4 == 0;
  for (const Tensor* t : tensors) fours = fours && cuda::in_fours(t->raw());
  if (fours) return f.template operator()<float4>(4);
  f.template operator()<float>(1);
}

}  // namespace

void CosFeatures::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t tokens = in[0].dim(0) * in[0].dim(1), width = in[0].dim(2) / heads;
  dispatch_fours(width, {&in[0], &out[0]}, [&]<class V>(int each) {
    launch(forward<V>, cuda::blocks_for(tokens, kWarps), kThreads, 0, stream,
           static_cast<const V*>(in[0].raw()), static_cast<V*>(out[0].raw()), tokens,
           static_cast<int>(heads), static_cast<int>(width / each), positions_of(in, period));
  });
}

void CosFeaturesBackward::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t tokens = in[1].dim(0) * in[1].dim(1), width = in[1].dim(2) / heads;
  dispatch_fours(width, {&in[0], &in[1], &out[0]}, [&]<class V>(int each) {
    launch(backward<V>, cuda::blocks_for(tokens, kWarps), kThreads, 0, stream,
           static_cast<const V*>(in[0].raw()), static_cast<const V*>(in[1].raw()),
           static_cast<V*>(out[0].raw()), tokens, static_cast<int>(heads),
           static_cast<int>(width / each), positions_of(in.subspan(1), period));
  });
}

}  // namespace hg::ops
