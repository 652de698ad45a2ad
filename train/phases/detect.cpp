#include "train/phases/detect.h"

namespace hg {

StepInput DetectPhase::input_of(const Batch& batch) const {
  StepInput input = SupervisedPhase::input_of(batch);
  input.boxes = batch.boxes;
  input.has_box = batch.has_box;
  return input;
}

std::optional<EpochReport> DetectPhase::finish_epoch(const std::function<bool()>& stop) {
  std::optional<EpochReport> report = judge(model_, test_loader_, Judged::boxes, stop);
  if (const std::string trained = trained_note(); report && !trained.empty())
    report->note += "  " + trained;
  return report;
}

}  // namespace hg
