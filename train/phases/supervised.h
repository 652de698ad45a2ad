// supervised: cross-entropy on labelled images (and the terms of [loss]), judged on the test
// images.
#pragma once

#include "train/phases/gradient_phase.h"
#include "train/supervised_step.h"

namespace hg {

class SupervisedPhase : public GradientPhase {
 public:
  SupervisedPhase(const PhaseSetting& setting, const Safetensors* before, bool resumed);
  std::optional<EpochReport> finish_epoch(const std::function<bool()>& stop) override;

 protected:
  virtual StepInput input_of(const Batch& batch) const;

 private:
  Batchwise learn_from(const Batch& batch) final;
  [[noreturn]] void explain(const Batch& batch) final;

  const LossConfig loss_;
};

}  // namespace hg
