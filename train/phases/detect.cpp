#include "train/phases/detect.h"

namespace hg {

StepInput DetectPhase::input_of(const Batch& batch) const {
  StepInput input = SupervisedPhase::input_of(batch);
  input.boxes = batch.boxes;
  input.has_box = batch.has_box;
  return input;
}

std::optional<EpochReport> DetectPhase::finish_epoch(const std::function<bool()>& stop) {
  return judge(model_, test_loader_, Judged::boxes, stop);
}

}  // namespace hg
