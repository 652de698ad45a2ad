// softmax over one axis: y_j = exp(x_j - m) / sum_k exp(x_k - m), m = max x.
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

class Softmax final : public OpOf<Softmax> {
 public:
  explicit Softmax(int axis) : axis(axis) {}
  HG_DECLARE_OP("softmax");
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override { return {.in = {}, .out = {0}}; }

  const int axis;
};

// inputs dy, y
class SoftmaxBackward final : public GradientOp<SoftmaxBackward> {
 public:
  explicit SoftmaxBackward(int axis) : axis(axis) {}
  HG_DECLARE_OP("softmax_backward");

  const int axis;
};

}  // namespace ops

Tensor softmax(const Tensor& x, int axis = -1);

}  // namespace hg
