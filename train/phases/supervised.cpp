#include "train/phases/supervised.h"

namespace hg {

SupervisedPhase::SupervisedPhase(const PhaseSetting& s, const Safetensors* before, bool resumed)
    : GradientPhase(s, before), loss_(s.config.loss) {
  take_up(s, before, resumed, s.phase().freeze);
}

StepInput SupervisedPhase::input_of(const Batch& batch) const {
  return {batch.images, batch.labels, loss_, seed_, steps(), batch.keep};
}

Batchwise SupervisedPhase::learn_from(const Batch& batch) {
  return forward_backward(model_, trained_, input_of(batch));
}

void SupervisedPhase::explain(const Batch& batch) {
  explain_non_finite_step(model_, trained_, input_of(batch));
}

std::optional<EpochReport> SupervisedPhase::finish_epoch(const std::function<bool()>& stop) {
  return judge(model_, test_loader_, Judged::classes, stop);
}

}  // namespace hg
