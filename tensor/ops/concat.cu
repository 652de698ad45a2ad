#include <algorithm>

#include "tensor/cuda/move.h"
#include "tensor/ops/concat.h"

namespace hg::ops {
namespace {

// Element i of a part of `width` a row, as one of rows of `whole` that has it at `column`.
struct Column {
  std::int64_t width, whole, column;
  __device__ std::int64_t operator()(std::int64_t i) const {
    return i / width * whole + column + i % width;
  }
};

// part(tensor, its columns) for each of them in turn.
void for_parts(const Shape& shape, int axis, In tensors, auto part) {
  const AxisView whole = around(shape, axis);
  std::int64_t column = 0;
  for (const Tensor& t : tensors) {
    const std::int64_t width = t.numel() / std::max<std::int64_t>(whole.outer, 1);
    part(t, Column{width, whole.n * whole.inner, column});
    column += width;
  }
}

}  // namespace

void Concat::cuda(In in, Out out, CudaStream& stream) const {
  for_parts(out[0].shape(), normalize_axis(axis, out[0].shape(), name()), in,
            [&](const Tensor& t, const Column& place) {
              cuda::scatter_elements(t, out[0], place, stream);
            });
}

void Split::cuda(In in, Out out, CudaStream& stream) const {
  for_parts(in[0].shape(), normalize_axis(axis, in[0].shape(), name()), out,
            [&](const Tensor& t, const Column& place) {
              cuda::gather_elements(in[0], t, place, stream);
            });
}

}  // namespace hg::ops
