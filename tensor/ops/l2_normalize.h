// l2_normalize over the last axis: y = x / max(||x||, eps).
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

// input x [..., D]; outputs y and the auxiliary norm ||x|| [...]
class L2Normalize final : public OpOf<L2Normalize> {
 public:
  explicit L2Normalize(double eps) : eps(eps) {}

  std::string_view name() const override { return "l2_normalize"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override { return {.in = {}, .out = {0, 1}}; }
  Indices auxiliary_outputs() const override { return {1}; }
  static Samples samples();

  const double eps;
};

// inputs dy, y, norm
class L2NormalizeBackward final : public NonDifferentiable<L2NormalizeBackward> {
 public:
  static constexpr std::string_view kNotDifferentiable = kNoSecondDerivative;
  explicit L2NormalizeBackward(double eps) : eps(eps) {}

  std::string_view name() const override { return "l2_normalize_backward"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  static Samples samples();

  const double eps;
};

}  // namespace ops

Tensor l2_normalize(const Tensor& x, double eps = 1e-12);

}  // namespace hg
