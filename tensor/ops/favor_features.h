// Performer's positive random features: with x' = x / D^(1/4) and its m products p = omega x',
// y = (exp(p - |x'|^2 / 2 - c) + eps) / sqrt(m). c is the largest product of the token, or, for
// keys, of all tokens of the (image, head). x [B, N, H D], products omega x [B, N, H, m]
// -> [B, N, H m].
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

class FavorFeatures final : public OpOf<FavorFeatures> {
 public:
  enum class Shift { token, sequence, none };  // where c is taken from; none: c = 0
  FavorFeatures(Shift shift, double eps) : shift(shift), eps(eps) {}
  HG_DECLARE_DIFFERENTIABLE_OP("favor_features");

  const Shift shift;
  const double eps;
};

// inputs dy, y, x, products; outputs dx, dproducts
class FavorFeaturesBackward final : public GradientOp<FavorFeaturesBackward> {
 public:
  explicit FavorFeaturesBackward(const FavorFeatures& forward) : forward(forward) {}
  HG_DECLARE_OP("favor_features_backward");

  const FavorFeatures forward;
};

}  // namespace ops

// x [B, N, H D], products [B, N, H, m] -> [B, N, H m]
inline Tensor favor_features(const Tensor& x, const Tensor& products,
                             ops::FavorFeatures::Shift shift, double eps = 1e-4) {
  return run_one(ops::FavorFeatures(shift, eps), {x, products});
}

}  // namespace hg
