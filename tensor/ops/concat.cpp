#include "tensor/ops/concat.h"

#include <algorithm>

#include "tensor/cpu/elementwise.h"

namespace hg::ops {
namespace {

// Copies `width` elements per outer row between buffers whose rows have different lengths.
void copy_columns(const Tensor& from, std::int64_t from_width, std::int64_t from_column,
                  const Tensor& to, std::int64_t to_width, std::int64_t to_column,
                  std::int64_t outer, std::int64_t width) {
  if (width == 0) return;
  dispatch_any(from.dtype(), [&]<class T>() {
    const T* x = from.data<T>() + from_column;
    T* y = to.data<T>() + to_column;
    cpu::parallel_each(outer, cpu::row_grain(width), [&](std::int64_t o) {
      std::copy_n(x + o * from_width, width, y + o * to_width);
    });
  });
}

}  // namespace

TensorSpecs Concat::infer(In in) const {
  require(!in.empty(), name(), "nothing to join");
  TensorSpec spec = in[0].spec();
  const int along = normalize_axis(axis, spec.shape, name());
  for (std::size_t i = 1; i < in.size(); ++i) {
    Shape shape = in[i].shape();
    require(in[i].dtype() == spec.dtype && shape.rank() == spec.shape.rank(), name(),
            "cannot join {} and {} along axis {}", in[0], in[i], axis);
    const std::int64_t size = shape[along];
    shape[along] = spec.shape[along];
    require(shape == spec.shape, name(), "cannot join {} and {} along axis {}", in[0], in[i], axis);
    spec.shape[along] += size;
  }
  return {spec};
}

CostParts Concat::cost(In in, In out) const { return elementwise_cost(in, out, 0); }

void Concat::cpu(In in, Out out) const {
  const AxisView whole = around(out[0].shape(), normalize_axis(axis, out[0].shape(), name()));
  std::int64_t column = 0;
  for (const Tensor& t : in) {
    const std::int64_t width = t.numel() / std::max<std::int64_t>(whole.outer, 1);
    copy_columns(t, width, 0, out[0], whole.n * whole.inner, column, whole.outer, width);
    column += width;
  }
}

Tensors Concat::grad(const GradArgs& args) const {
  CachedVector<std::int64_t> sizes;
  for (const Tensor& t : args.in) sizes.push_back(t.dim(axis));
  return split(args.grad_out[0], std::move(sizes), axis);
}

Samples Concat::samples() {
  return {
      sample(Concat(0), {S::uniform({1}), S::uniform({3})}),
      sample(Concat(1), {S::uniform({2, 1, 3}), S::uniform({2, 197, 3}), S::uniform({2, 0, 3})}),
      sample(Concat(-1), {S::uniform({3, 2}), S::uniform({3, 5})}),
      sample(Concat(0), {S::integers({2, 3}, 9), S::integers({1, 3}, 9)})};
}

TensorSpecs Split::infer(In in) const {
  expect_inputs(*this, in, 1);
  const int along = normalize_axis(axis, in[0].shape(), name());
  TensorSpecs specs;
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) {
    specs.push_back(in[0].spec());
    specs.back().shape[along] = size;
    require(size >= 0, name(), "negative piece of {}", size);
    require(size <= in[0].shape()[along] - sum, name(), "pieces exceed axis {} of {}", axis, in[0]);
    sum += size;
  }
  require(sum == in[0].shape()[along] && !sizes.empty(), name(),
          "pieces of {} in all along axis {} of {}", sum, axis, in[0]);
  return specs;
}

CostParts Split::cost(In in, In out) const { return elementwise_cost(in, out, 0); }

void Split::cpu(In in, Out out) const {
  const AxisView whole = around(in[0].shape(), normalize_axis(axis, in[0].shape(), name()));
  std::int64_t column = 0;
  for (const Tensor& t : out) {
    const std::int64_t width = t.numel() / std::max<std::int64_t>(whole.outer, 1);
    copy_columns(in[0], whole.n * whole.inner, column, t, width, 0, whole.outer, width);
    column += width;
  }
}

Tensors Split::grad(const GradArgs& args) const {
  Tensors pieces;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    pieces.push_back(args.grad_or_zeros(static_cast<int>(i)));
  return {concat(pieces, axis)};
}

Samples Split::samples() {
  return {sample(Split(0, {1, 2}), {S::uniform({3})}),
          sample(Split(1, {1, 0, 196}), {S::uniform({2, 197, 3})}),
          sample(Split(-1, {1}), {S::uniform({3, 1})}),
          sample(Split(-1, {2, 3}), {S::integers({3, 5}, 9)})};
}

}  // namespace hg::ops
