#include <algorithm>

#include "tensor/cuda/dots.h"
#include "tensor/cuda/elementwise.h"
#include "tensor/ops/scale_axes.h"

namespace hg::ops {
namespace {

// x as [outer, n, inner], s being [n]. Index: 32 bits if they do, as it divides far quicker.
template <class Index>
struct Scaled {
  using Indexed = void;
  const float* s;
  Index n, inner;
  __device__ float operator()(std::int64_t i, float x) const {
    return x * s[static_cast<Index>(i) / inner % n];
  }
};

constexpr std::int64_t kPart = 4096;

// Of [outer, n, inner], sums of x z over parts of the inner axes, to [outer, parts, n].
struct PartDots {
  const float *x, *z;
  float* y;
  std::int64_t n, inner, parts;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const std::int64_t line = index / parts, part = index % parts, begin = part * kPart;
    const std::int64_t end = begin + kPart < inner ? begin + kPart : inner;
    float sum = 0;
    for (std::int64_t j = begin + row.begin(); j < end; j += row.step())
      sum += x[line * inner + j] * z[line * inner + j];
    sum = row.sum(sum);
    if (row.leads()) y[(line / n * parts + part) * n + line % n] = sum;
  }
};

}  // namespace

void ScaleAxes::cuda(In in, Out out, CudaStream& stream) const {
  const Shape& x = in[0].shape();
  const std::int64_t inner = x.product(first + in[1].rank(), x.rank());
  const auto scale = [&]<class Index>(Index n) {
    cuda::elementwise<1>(in, out[0],
                         Scaled<Index>{in[1].data<float>(), n, static_cast<Index>(inner)}, stream);
  };
  const std::int64_t n = in[1].numel();
  if (in[0].numel() <= 0xffffffff) return scale(static_cast<unsigned>(n));
  scale(n);
}

// Parts of the inner axes first, then the rows of those sums: even where n is 1 there is work for
// many blocks.
void DotAxes::cuda(In in, Out out, CudaStream& stream) const {
  const Shape& shape = in[0].shape();
  const std::int64_t outer = shape.product(0, first), n = out[0].numel();
  const std::int64_t inner = shape.product(last, shape.rank());
  const float *const dy = in[0].data<float>(), *const x = in[1].data<float>();
  float* const ds = out[0].data<float>();
  if (inner == 1) return cuda::sum_rows(dy, x, outer, n, ds, stream);
  const std::int64_t parts = std::max<std::int64_t>(1, (inner + kPart - 1) / kPart);
  const bool whole = outer * parts == 1;
  const Tensor sums = Tensor::empty({whole ? 0 : outer * parts * n}, DType::f32, Device::cuda);
  float* const partial = whole ? ds : sums.data<float>();
  cuda::along_rows(outer * n * parts, std::min(inner, kPart),
                   PartDots{dy, x, partial, n, inner, parts}, stream);
  if (!whole) cuda::sum_rows(partial, nullptr, outer * parts, n, ds, stream);
}

}  // namespace hg::ops
