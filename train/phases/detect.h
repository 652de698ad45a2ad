// detect: class and box of the one object of each image, by heads on the same pooled output;
// cross-entropy plus the box loss (METHODS.md, section 7).
#pragma once

#include "train/phases/supervised.h"

namespace hg {

class DetectPhase final : public SupervisedPhase {
 public:
  using SupervisedPhase::SupervisedPhase;
  std::optional<EpochReport> finish_epoch(const std::function<bool()>& stop) override;

 private:
  StepInput input_of(const Batch& batch) const override;
};

}  // namespace hg
