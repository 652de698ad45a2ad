// y = x * s, where s has the axes of x from `first` on, as many as it has, and is repeated over the
// others: a factor for each head of [B, H, ...], for each row of [.., D].
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

class ScaleAxes final : public OpOf<ScaleAxes> {
 public:
  explicit ScaleAxes(int first) : first(first) {}
  HG_DECLARE_DIFFERENTIABLE_OP("scale_axes");
  Saved saved() const override { return {.in = {0, 1}, .out = {}}; }

  const int first;
};

// The gradient of s: inputs dy and x; the sum of dy x over the axes that s does not have.
class DotAxes final : public GradientOp<DotAxes> {
 public:
  DotAxes(int first, int last) : first(first), last(last) {}
  HG_DECLARE_OP("scale_axes_backward");

  const int first, last;  // axes that stay
};

}  // namespace ops

// x [B, H, N, D], s [H], first 1 -> [B, H, N, D]
inline Tensor scale_axes(const Tensor& x, const Tensor& s, int first) {
  return run_one(ops::ScaleAxes(first), {x, s});
}

}  // namespace hg
