// supervised: cross-entropy on labelled images (and the terms of [loss]), judged on the test
// images.
#pragma once

#include "train/phases/gradient_phase.h"
#include "train/supervised_step.h"

namespace hg {

class SupervisedPhase final : public GradientPhase {
 public:
  SupervisedPhase(const PhaseSetting& setting, const Safetensors* before, bool resumed);
  std::optional<EpochReport> finish_epoch(const std::function<bool()>& stop) override;

 private:
  StepInput input_of(const Batch& batch) const;
  Batchwise learn_from(const Batch& batch) override;
  [[noreturn]] void explain(const Batch& batch) override;

  const LossConfig loss_;
};

}  // namespace hg
