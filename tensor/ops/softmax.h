// softmax over one axis: y_j = exp(x_j - m) / sum_k exp(x_k - m), m = max x; or its logarithm (see
// tensor/ops/log_softmax.h): y_j = (x_j - m) - log sum_k exp(x_k - m).
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

class Softmax : public OpOf<Softmax> {
 public:
  explicit Softmax(int axis, bool log = false) : axis(axis), log(log) {}
  HG_DECLARE_DIFFERENTIABLE_OP(log ? "log_softmax" : "softmax");
  Saved saved() const override { return {.in = {}, .out = {0}}; }

  const int axis;
  const bool log;
};

// inputs dy, y
class SoftmaxBackward : public GradientOp<SoftmaxBackward> {
 public:
  explicit SoftmaxBackward(int axis, bool log = false) : axis(axis), log(log) {}
  HG_DECLARE_OP(log ? "log_softmax_backward" : "softmax_backward");

  const int axis;
  const bool log;
};

}  // namespace ops

// The same shape; over the last axis unless told otherwise.
inline Tensor softmax(const Tensor& x, int axis = -1) { return run_one(ops::Softmax(axis), {x}); }

}  // namespace hg
