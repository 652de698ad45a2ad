// Cosformer's features: y = [relu(x) cos(a), relu(x) sin(a)] per head, with the angle
// a = pi (position + 1) / (2 period) of the token. x [B, N, H D] -> [B, N, H 2D]. The second input,
// ids [N] or [B, N], gives the tokens' positions; without it position = index.
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

class CosFeatures final : public OpOf<CosFeatures> {
 public:
  CosFeatures(std::int64_t heads, std::int64_t period) : heads(heads), period(period) {}
  HG_DECLARE_DIFFERENTIABLE_OP("cos_features");
  Saved saved() const override { return {.in = {0, 1}, .out = {}}; }

  const std::int64_t heads, period;
};

// inputs dy, x and ids as in the forward
class CosFeaturesBackward final : public GradientOp<CosFeaturesBackward> {
 public:
  CosFeaturesBackward(std::int64_t heads, std::int64_t period) : heads(heads), period(period) {}
  HG_DECLARE_OP("cos_features_backward");

  const std::int64_t heads, period;
};

}  // namespace ops

// `ids` may be undefined.
inline Tensor cos_features(const Tensor& x, const Tensor& ids, std::int64_t heads,
                           std::int64_t period) {
  const ops::CosFeatures op(heads, period);
  return ids.defined() ? run_one(op, {x, ids}) : run_one(op, {x});
}

}  // namespace hg
