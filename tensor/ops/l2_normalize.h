// l2_normalize over the last axis: y = x / max(||x||, eps).
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

// input x [..., D]; outputs y and the auxiliary norm ||x|| [...]
class L2Normalize final : public OpOf<L2Normalize> {
 public:
  explicit L2Normalize(double eps) : eps(eps) {}
  HG_DECLARE_DIFFERENTIABLE_OP("l2_normalize");
  Saved saved() const override { return {.in = {}, .out = {0, 1}}; }
  Indices auxiliary_outputs() const override { return {1}; }

  const double eps;
};

// inputs dy, y, norm
class L2NormalizeBackward final : public GradientOp<L2NormalizeBackward> {
 public:
  explicit L2NormalizeBackward(double eps) : eps(eps) {}
  HG_DECLARE_OP("l2_normalize_backward");

  const double eps;
};

}  // namespace ops

// Rows of the last axis come to length 1.
inline Tensor l2_normalize(const Tensor& x, double eps = 1e-12) {
  return run_one(ops::L2Normalize(eps), {x});
}

}  // namespace hg
