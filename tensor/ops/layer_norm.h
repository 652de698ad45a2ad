// layer_norm over the last axis: y = gamma (x - mean) / sqrt(var + eps) + beta, biased variance.
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

// inputs x [..., D], gamma [D], beta [D]; outputs y and the auxiliary mean [...], rstd [...]
class LayerNorm final : public OpOf<LayerNorm> {
 public:
  explicit LayerNorm(double eps) : eps(eps) {}

  std::string_view name() const override { return "layer_norm"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override { return {.in = {0, 1}, .out = {1, 2}}; }
  Indices auxiliary_outputs() const override { return {1, 2}; }
  static Samples samples();

  const double eps;
};

// inputs dy, x, gamma, mean, rstd; outputs dx, dgamma, dbeta
class LayerNormBackward final : public NonDifferentiable<LayerNormBackward> {
 public:
  static constexpr std::string_view kNotDifferentiable = kNoSecondDerivative;

  std::string_view name() const override { return "layer_norm_backward"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  static Samples samples();
};

}  // namespace ops

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps = 1e-6);

}  // namespace hg
