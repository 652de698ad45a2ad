#include "tensor/cuda/dots.h"
#include "tensor/cuda/elementwise.h"
#include "tensor/ops/broadcast.h"

namespace hg::ops {
namespace {

template <bool kMul>
struct WithTrailing {
  using Indexed = void;
  const float* b;
  std::int64_t width;
  __device__ float operator()(std::int64_t i, float x) const {
    const float v = b[i % width];
    return kMul ? x * v : x + v;
  }
};

}  // namespace

void Broadcast::cuda(In in, Out out, CudaStream& stream) const {
  const float* const b = in[1].data<float>();
  const std::int64_t width = in[1].numel();
  if (kind == Kind::mul)
    return cuda::elementwise<1>(in, out[0], WithTrailing<true>{b, width}, stream);
  cuda::elementwise<1>(in, out[0], WithTrailing<false>{b, width}, stream);
}

void SumLeading::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t width = out[0].numel();
  if (width == 0) return;
  const std::int64_t rows = in[0].numel() / width;
  cuda::sum_rows(in[0].data<float>(), product ? in[1].data<float>() : nullptr, rows, width,
                 out[0].data<float>(), stream);
}

}  // namespace hg::ops
