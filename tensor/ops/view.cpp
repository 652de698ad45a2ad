#include "tensor/ops/view.h"

#include <utility>

#include "tensor/ops/concat.h"

namespace hg {
namespace ops {
namespace {

TensorSpec view_of(const Tensor& x, const Shape& shape, const Shape& strides, std::int64_t offset) {
  TensorSpec spec = x.spec();
  spec.shape = shape;
  spec.strides = strides;
  spec.offset = offset;
  spec.alias_of = 0;
  return spec;
}

Tensor zeros_like_rows(const Tensor& x, std::int64_t rows) {
  Shape shape = x.shape();
  shape[0] = rows;
  return Tensor::zeros(shape, x.dtype(), x.device());
}

}  // namespace

TensorSpecs Reshape::infer(In in) const {
  expect_inputs(*this, in, 1);
  check_extents(shape, name());
  require(shape.numel() == in[0].numel(), name(), "{} does not fit into {}", in[0], shape);
  return {view_of(in[0], shape, shape.contiguous_strides(), 0)};
}

Tensors Reshape::grad(const GradArgs& args) const {
  return {reshape(args.grad_out[0], args.in[0].shape())};
}

Samples Reshape::samples() {
  return {sample(Reshape({197, 3}), {S::uniform({3, 197})}), sample(Reshape({}), {S::uniform({1})}),
          sample(Reshape({2, 6}), {S::uniform({3, 4})})};
}

TensorSpecs Slice::infer(In in) const {
  expect_inputs(*this, in, 1);
  expect_rank_at_least(*this, in, 0, 1);
  require(0 <= begin && begin <= end && end <= in[0].shape()[0], name(),
          "rows {} to {} out of range for {}", begin, end, in[0]);
  Shape shape = in[0].shape();
  shape[0] = end - begin;
  return {view_of(in[0], shape, in[0].strides(), begin * in[0].strides()[0])};
}

// dy between the zeros of the rows left out
Tensors Slice::grad(const GradArgs& args) const {
  const Tensor& dy = args.grad_out[0];
  const std::int64_t rows = args.in[0].shape()[0];
  return {concat({zeros_like_rows(dy, begin), dy, zeros_like_rows(dy, rows - end)}, 0)};
}

Samples Slice::samples() {
  return {sample(Slice(1, 3), {S::uniform({197, 3})}), sample(Slice(0, 1), {S::uniform({1})}),
          sample(Slice(2, 2), {S::uniform({3, 2, 2})}), sample(Slice(0, 2), {S::uniform({2, 5})})};
}

TensorSpecs Transpose::infer(In in) const {
  expect_inputs(*this, in, 1);
  expect_rank_at_least(*this, in, 0, 2);
  Shape shape = in[0].shape(), strides = in[0].strides();
  const int r = shape.rank();
  std::swap(shape[r - 1], shape[r - 2]);
  std::swap(strides[r - 1], strides[r - 2]);
  return {view_of(in[0], shape, strides, 0)};
}

Tensors Transpose::grad(const GradArgs& args) const { return {transpose(args.grad_out[0])}; }

Samples Transpose::samples() {
  return {sample(Transpose(), {S::uniform({3, 197})}), sample(Transpose(), {S::uniform({2, 1, 5})}),
          sample(Transpose(), {S::transposed_view({2, 3, 4})})};
}

}  // namespace ops

Tensor reshape(const Tensor& x, const Shape& shape) {
  Shape resolved = shape;
  int open = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != -1) continue;
    require(open < 0, "reshape", "more than one open extent in {}", shape);
    open = i;
    resolved[i] = 1;
  }
  if (open >= 0) {
    check_extents(resolved, "reshape");
    const std::int64_t known = resolved.numel();
    require(known > 0 && x.numel() % known == 0, "reshape", "{} does not fit into {}", x, shape);
    resolved[open] = x.numel() / known;
  }
  return run_one(ops::Reshape(resolved), {x});
}

}  // namespace hg
