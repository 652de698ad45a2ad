// A configuration's training step on random data of its shape, to be timed or profiled: that of its
// first phase that learns classes.
#pragma once

#include "train/step/optimizer.h"
#include "train/step/supervised_step.h"

namespace hg {

class BenchStep {
 public:
  // Throws UsageError if a phase is trained, but none learns classes.
  explicit BenchStep(const Config& config);

  void operator()();      // forward, backward and update
  double timed_ms();      // makes a step
  std::uint64_t flops();  // the same
  std::int64_t batch() const { return input_.labels.dim(0); }
  const nn::Vit& model() const { return model_; }
  const std::string& phase() const { return phase_.kind; }

 private:
  const PhaseConfig phase_;
  const nn::Vit model_;
  const std::vector<nn::Parameter> trained_;
  const FrozenParts frozen_;
  const std::unique_ptr<const Teacher> teacher_;
  Optimizer optimizer_;
  StepInput input_;
};

}  // namespace hg
