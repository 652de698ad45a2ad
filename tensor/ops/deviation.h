// How far each token is from the mean of its image's tokens: x [B, N, E] -> |x_i - mean_j x_j|^2
// [B, N]. It ranks tokens, so it has no gradient.
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

class Deviation final : public NonDifferentiable<Deviation> {
 public:
  static constexpr std::string_view kNotDifferentiable = "it only ranks tokens";

  std::string_view name() const override { return "deviation"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  static Samples samples();
};

}  // namespace ops

Tensor deviation(const Tensor& x);

}  // namespace hg
