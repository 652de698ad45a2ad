// A configuration's training step on random data of its shape, to be timed or profiled.
#pragma once

#include "train/phases/learner.h"
#include "train/step/optimizer.h"

namespace hg {

class MeasuredStep {
 public:
  // Of that phase; none: the first that learns classes, else the first that learns anything. A run
  // that only prunes is measured as in supervised training. Throws UsageError, naming --phase, for
  // a phase that is not there or has no steps.
  explicit MeasuredStep(const Config& config, std::optional<std::int64_t> phase = {});

  void operator()();      // forward, backward and update
  double timed_ms();      // makes a step
  std::uint64_t flops();  // the same
  std::int64_t batch() const { return batch_.size(); }
  const nn::Vit& model() const { return learner_->model(); }
  const std::string& phase() const { return phase_; }  // its kind

 private:
  MeasuredStep(const Config& config, std::size_t index);

  const std::string phase_;
  const std::unique_ptr<Learner> learner_;
  Optimizer optimizer_;
  Batch batch_;
};

}  // namespace hg
