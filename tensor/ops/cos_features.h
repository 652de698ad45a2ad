// Cosformer's features: y = [relu(x) cos(a), relu(x) sin(a)] per head, with the angle
// a = pi (position + 1) / (2 period) of the token. x [B, N, H D] -> [B, N, H 2D]. The second input,
// ids [N] or [B, N], gives the tokens' positions; without it position = index.
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

class CosFeatures final : public OpOf<CosFeatures> {
 public:
  CosFeatures(std::int64_t heads, std::int64_t period) : heads(heads), period(period) {}

  std::string_view name() const override { return "cos_features"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override { return {.in = {0, 1}, .out = {}}; }
  static Samples samples();

  const std::int64_t heads, period;
};

// inputs dy, x and ids as in the forward
class CosFeaturesBackward final : public NonDifferentiable<CosFeaturesBackward> {
 public:
  static constexpr std::string_view kNotDifferentiable = kNoSecondDerivative;
  CosFeaturesBackward(std::int64_t heads, std::int64_t period) : heads(heads), period(period) {}

  std::string_view name() const override { return "cos_features_backward"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  static Samples samples();

  const std::int64_t heads, period;
};

}  // namespace ops

// `ids` may be undefined.
Tensor cos_features(const Tensor& x, const Tensor& ids, std::int64_t heads, std::int64_t period);

}  // namespace hg
