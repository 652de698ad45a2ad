// Queries of every token, keys and values of a head's kept tokens alone: what a support drops is
// neither read nor computed.
// Inputs: x [B, N, E], weight [3 H D, E], bias [3 H D] (optional), as of a linear that makes qkv.
// Outputs: q [B, N, H D]; k and v [R, D], the kept keys of image by image, head by head.
#pragma once

#include "tensor/op.h"
#include "tensor/ops/attention/pair_support.h"

namespace hg {

namespace ops {

class KeptProjection final : public OpOf<KeptProjection> {
 public:
  explicit KeptProjection(Supports supports) : supports(std::move(supports)) {}

  std::string_view name() const override { return "kept_projection"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;  // parts: product, bias
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override { return {.in = {0, 1}, .out = {}}; }
  static Samples samples();

  const Supports supports;
};

// inputs dq, dk, dv, x, weight; outputs dx, dweight, dbias, as far as wanted
class KeptProjectionBackward final : public NonDifferentiable<KeptProjectionBackward> {
 public:
  static constexpr std::string_view kNotDifferentiable = kNoSecondDerivative;
  struct Wants {
    bool x, weight, bias;
  };
  KeptProjectionBackward(Supports supports, Wants wants)
      : supports(std::move(supports)), wants(wants) {}

  std::string_view name() const override { return "kept_projection_backward"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;  // parts: product, bias
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  static Samples samples();

  const Supports supports;
  const Wants wants;
};

}  // namespace ops

// q, k, v; bias may be undefined
Tensors kept_projection(const Supports& supports, const Tensor& x, const Tensor& weight,
                        const Tensor& bias);

}  // namespace hg
