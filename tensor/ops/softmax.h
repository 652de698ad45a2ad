// softmax over one axis: y_j = exp(x_j - m) / sum_k exp(x_k - m), m = max x.
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

class Softmax final : public OpOf<Softmax> {
 public:
  explicit Softmax(int axis) : axis(axis) {}

  std::string_view name() const override { return "softmax"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override { return {.in = {}, .out = {0}}; }
  static Samples samples();

  const int axis;
};

// inputs dy, y
class SoftmaxBackward final : public NonDifferentiable<SoftmaxBackward> {
 public:
  static constexpr std::string_view kNotDifferentiable = kNoSecondDerivative;
  explicit SoftmaxBackward(int axis) : axis(axis) {}

  std::string_view name() const override { return "softmax_backward"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  static Samples samples();

  const int axis;
};

}  // namespace ops

Tensor softmax(const Tensor& x, int axis = -1);

}  // namespace hg
