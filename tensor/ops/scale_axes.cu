#include "tensor/cuda/dots.h"
#include "tensor/cuda/elementwise.h"
#include "tensor/ops/scale_axes.h"

namespace hg::ops {
namespace {

// x as [outer, n, inner], s being [n].
struct Scaled {
  using Indexed = void;
  const float* s;
  std::int64_t n, inner;
  __device__ float operator()(std::int64_t i, float x) const { return x * s[i / inner % n]; }
};

}  // namespace

void ScaleAxes::cuda(In in, Out out, CudaStream& stream) const {
  const Shape& x = in[0].shape();
  const std::int64_t inner = x.product(first + in[1].rank(), x.rank());
  cuda::elementwise<1>(in, out[0], Scaled{in[1].data<float>(), in[1].numel(), inner}, stream);
}

// Along the inner axes first, then the rows of those sums: even where n is small there is work for
// many blocks.
void DotAxes::cuda(In in, Out out, CudaStream& stream) const {
  const Shape& shape = in[0].shape();
  const std::int64_t outer = shape.product(0, first), n = out[0].numel();
  const std::int64_t inner = shape.product(last, shape.rank());
  const float *const dy = in[0].data<float>(), *const x = in[1].data<float>();
  float* const ds = out[0].data<float>();
  if (outer == 1 || (inner == 1 && n == 1))
    return cuda::along_rows(n, outer * inner, cuda::RowDots{dy, x, ds}, stream);
  if (inner == 1) return cuda::column_sums(cuda::ColumnDots{dy, x, ds, n}, outer, n, stream);
  const Tensor sums = Tensor::empty({outer, n}, DType::f32, Device::cuda);
  float* const partial = sums.data<float>();
  cuda::along_rows(outer * n, inner, cuda::RowDots{dy, x, partial}, stream);
  cuda::column_sums(cuda::ColumnDots{partial, nullptr, ds, n}, outer, n, stream);
}

}  // namespace hg::ops
