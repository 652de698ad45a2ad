// log_softmax over one axis: softmax with its flag `log`, under a name of its own.
#pragma once

#include "tensor/ops/softmax.h"

namespace hg {
namespace ops {

class LogSoftmax final : public Softmax {
 public:
  explicit LogSoftmax(int axis) : Softmax(axis, true) {}
  static Samples samples();
};

class LogSoftmaxBackward final : public SoftmaxBackward {
 public:
  explicit LogSoftmaxBackward(int axis) : SoftmaxBackward(axis, true) {}
  static Samples samples();
};

}  // namespace ops

// The same shape; over the last axis unless told otherwise.
inline Tensor log_softmax(const Tensor& x, int axis = -1) {
  return run_one(ops::LogSoftmax(axis), {x});
}

}  // namespace hg
