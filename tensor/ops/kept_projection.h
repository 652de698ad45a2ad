// Queries of every token, keys and values of a head's kept tokens alone: what a support drops is
// neither read nor computed.
// Inputs: x [B, N, E], weight [3 H D, E], bias [3 H D] (optional), as of a linear that makes qkv.
// Outputs: q [B, N, H D]; k and v [R, D], the kept keys of image by image, head by head.
#pragma once

#include "tensor/ops/attention/pair_support.h"
#include "tensor/run.h"

namespace hg {
namespace ops {

// parts of the cost, as backward: product, bias
class KeptProjection final : public OpOf<KeptProjection> {
 public:
  explicit KeptProjection(Supports supports) : supports(std::move(supports)) {}
  HG_DECLARE_DIFFERENTIABLE_OP("kept_projection");
  Saved saved() const override { return {.in = {0, 1}, .out = {}}; }

  const Supports supports;
};

// inputs dq, dk, dv, x, weight; outputs dx, dweight, dbias, as far as wanted
class KeptProjectionBackward final : public GradientOp<KeptProjectionBackward> {
 public:
  struct Wants {
    bool x, weight, bias;
  };
  KeptProjectionBackward(Supports supports, Wants wants)
      : supports(std::move(supports)), wants(wants) {}
  HG_DECLARE_OP("kept_projection_backward");

  const Supports supports;
  const Wants wants;
};

}  // namespace ops

// q, k, v; bias may be undefined
inline Tensors kept_projection(const Supports& supports, const Tensor& x, const Tensor& weight,
                               const Tensor& bias) {
  if (bias.defined()) return run(ops::KeptProjection(supports), {{x, weight, bias}});
  return run(ops::KeptProjection(supports), {{x, weight}});
}

}  // namespace hg
