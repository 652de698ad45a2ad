// y = x * s, where s has the axes of x from `first` on, as many as it has, and is repeated over the
// others: a factor for each head of [B, H, ...], for each row of [.., D].
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

class ScaleAxes final : public OpOf<ScaleAxes> {
 public:
  explicit ScaleAxes(int first) : first(first) {}

  std::string_view name() const override { return "scale_axes"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  Tensors grad(const GradArgs& args) const override;
  static Samples samples();
  Saved saved() const override { return {.in = {0, 1}, .out = {}}; }

  const int first;
};

// The gradient of s: inputs dy and x; the sum of dy x over the axes that s does not have.
class DotAxes final : public NonDifferentiable<DotAxes> {
 public:
  static constexpr std::string_view kNotDifferentiable = kNoSecondDerivative;
  DotAxes(int first, int last) : first(first), last(last) {}

  std::string_view name() const override { return "scale_axes_backward"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  static Samples samples();

  const int first, last;  // axes that stay
};

}  // namespace ops

Tensor scale_axes(const Tensor& x, const Tensor& s, int first);

}  // namespace hg
