// A configuration's training step on random data of its shape, to be timed or profiled.
#pragma once

#include "train/optimizer.h"
#include "train/supervised_step.h"

namespace hg {

class BenchStep {
 public:
  explicit BenchStep(const Config& config);

  void operator()();      // forward, backward and update
  double timed_ms();      // makes a step
  std::uint64_t flops();  // the same
  std::int64_t batch() const { return input_.labels.dim(0); }
  const nn::Vit& model() const { return model_; }

 private:
  const nn::Vit model_;
  Optimizer optimizer_;
  StepInput input_;
};

}  // namespace hg
