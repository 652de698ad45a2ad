#include "train/phases/step_cost.h"

#include "tensor/run.h"
#include "train/config/selection.h"
#include "train/phases/measured_model.h"
#include "train/phases/sample_batch.h"
#include "train/phases/supervised.h"

namespace hg {
namespace {

class StepCounter final : public Observer {
 public:
  void op_end(const OpCall& call) override {
    (call.phase == Phase::backward ? cost.backward : cost.forward) +=
        call.op.cost(call.in, call.out).total();
  }
  StepCost cost;
};

void take_dry(Learner& learner, const Batch& batch, Observer& observer) {
  const ObserverGuard guard(observer);
  const DryRun dry;
  learner.learn_from(batch);
}

}  // namespace

std::optional<StepCost> step_cost(const Config& config, std::size_t index) {
  for (std::size_t i = 0; i <= index; ++i)
    if (kind_of(config.phases[i]).prunes) return std::nullopt;
  const PhaseKind& kind = kind_of(config.phases[index]);
  const BatchShape shape = kind.shape(config, config.phases[index]);
  const auto learner = kind.learner(
      {.config = config, .index = index, .options = options_to_measure(config), .hollow = true});
  StepCounter counter;
  counter.cost.images = shape.images;
  take_dry(*learner,
           sample_batch(config, shape, patch_selection(config, Split::train), Contents::none),
           counter);
  return counter.cost;
}

void count_one_image(const Config& config, const nn::VitOptions& options,
                     const std::optional<PatchSelection>& selection, Observer& observer) {
  SupervisedLearner learner({.config = config, .index = 0, .options = options, .hollow = true},
                            {.boxes = detects(config)});
  take_dry(learner, sample_batch(config, {.images = 1}, selection, Contents::none), observer);
}

}  // namespace hg
