// concat joins tensors along an axis, split cuts one into pieces: each is the other's gradient.
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

class Concat final : public OpOf<Concat> {
 public:
  explicit Concat(int axis) : axis(axis) {}
  HG_DECLARE_DIFFERENTIABLE_OP("concat");
  Saved saved() const override { return {.in = {}, .out = {}}; }

  const int axis;
};

class Split final : public OpOf<Split> {
 public:
  Split(int axis, CachedVector<std::int64_t> sizes) : axis(axis), sizes(std::move(sizes)) {}
  HG_DECLARE_DIFFERENTIABLE_OP("split");
  Saved saved() const override { return {.in = {}, .out = {}}; }

  const int axis;
  const CachedVector<std::int64_t> sizes;  // add up to the axis
};

}  // namespace ops

// Parts of the same shape, but for `axis`.
inline Tensor concat(In parts, int axis) { return run(ops::Concat(axis), parts)[0]; }
inline Tensor concat(std::initializer_list<Tensor> parts, int axis) {
  return concat(In(parts.begin(), parts.size()), axis);
}
// Pieces of these sizes along `axis`; they add up to it.
inline Tensors split(const Tensor& x, CachedVector<std::int64_t> sizes, int axis) {
  return run(ops::Split(axis, std::move(sizes)), {x});
}

}  // namespace hg
