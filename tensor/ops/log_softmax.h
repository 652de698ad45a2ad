// log_softmax over one axis: y_j = (x_j - m) - log sum_k exp(x_k - m), m = max x.
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

class LogSoftmax final : public OpOf<LogSoftmax> {
 public:
  explicit LogSoftmax(int axis) : axis(axis) {}

  std::string_view name() const override { return "log_softmax"; }
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
class LogSoftmaxBackward final : public NonDifferentiable<LogSoftmaxBackward> {
 public:
  static constexpr std::string_view kNotDifferentiable = kNoSecondDerivative;
  explicit LogSoftmaxBackward(int axis) : axis(axis) {}

  std::string_view name() const override { return "log_softmax_backward"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  static Samples samples();

  const int axis;
};

}  // namespace ops

Tensor log_softmax(const Tensor& x, int axis = -1);

}  // namespace hg
