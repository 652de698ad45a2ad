// layer_norm over the last axis: y = gamma (x - mean) / sqrt(var + eps) + beta, biased variance.
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

// inputs x [..., D], gamma [D], beta [D]; outputs y and the auxiliary mean [...], rstd [...]
class LayerNorm final : public OpOf<LayerNorm> {
 public:
  explicit LayerNorm(double eps) : eps(eps) {}
  HG_DECLARE_DIFFERENTIABLE_OP("layer_norm");
  Saved saved() const override { return {.in = {0, 1}, .out = {1, 2}}; }
  Indices auxiliary_outputs() const override { return {1, 2}; }

  const double eps;
};

// inputs dy, x, gamma, mean, rstd; outputs dx, dgamma, dbeta
class LayerNormBackward final : public GradientOp<LayerNormBackward> {
 public:
  HG_DECLARE_OP("layer_norm_backward");
};

}  // namespace ops

// x [.., D], gamma and beta [D] -> [.., D]
inline Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                         double eps = 1e-6) {
  return run_one(ops::LayerNorm(eps), {x, gamma, beta});
}

}  // namespace hg
