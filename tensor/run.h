// run(): the only place where op, device, tape and profiler meet.
#pragma once

#include "tensor/op.h"

namespace hg {

// Checks the inputs, makes the outputs, runs the op's kernel where the inputs live, and lets tape
// and observers know. Functions like softmax() (tensor/ops) are short for it.
Tensors run(const Op& op, In in);
inline Tensors run(const Op& op, std::initializer_list<Tensor> in) {
  return run(op, In(in.begin(), in.size()));
}
// The output of an op that has one.
inline Tensor run_one(const Op& op, std::initializer_list<Tensor> in) { return run(op, in)[0]; }

// While alive, ops of this thread are inferred, recorded and observed but not launched, and their
// outputs have no contents: it counts a model without computing it.
class DryRun : NoCopy {
 public:
  DryRun();
  ~DryRun();

 private:
  bool previous_;
};

}  // namespace hg
