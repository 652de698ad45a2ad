// log_softmax over one axis: y_j = (x_j - m) - log sum_k exp(x_k - m), m = max x.
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

class LogSoftmax final : public OpOf<LogSoftmax> {
 public:
  explicit LogSoftmax(int axis) : axis(axis) {}
  HG_DECLARE_OP("log_softmax");
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override { return {.in = {}, .out = {0}}; }

  const int axis;
};

// inputs dy, y
class LogSoftmaxBackward final : public GradientOp<LogSoftmaxBackward> {
 public:
  explicit LogSoftmaxBackward(int axis) : axis(axis) {}
  HG_DECLARE_OP("log_softmax_backward");

  const int axis;
};

}  // namespace ops

Tensor log_softmax(const Tensor& x, int axis = -1);

}  // namespace hg
