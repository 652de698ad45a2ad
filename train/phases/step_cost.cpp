#include "train/phases/step_cost.h"

#include <set>

#include "tensor/run.h"
#include "train/config/selection.h"
#include "train/phases/sample_batch.h"

namespace hg {
namespace {

class StepCounter final : public Observer {
 public:
  explicit StepCounter(const Learner& learner) {
    for (const nn::Parameter& p : learner.model().parameters().all()) {
      cost.parameters += p.value.numel();
      seen_.insert(p.value.id());
    }
  }
  void op_end(const OpCall& call) override {
    const bool forward = call.phase != Phase::backward;
    (forward ? cost.forward : cost.backward) += call.op.cost(call.in, call.out).total();
    if (!forward) return;
    const Saved saved = call.op.saved();
    keep(call.in, saved.in);
    keep(call.out, saved.out);
  }
  StepCost cost;

 private:
  void keep(In tensors, Indices which) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (which.has(i) && tensors[i].defined() && seen_.insert(tensors[i].id()).second)
        cost.kept_bytes += tensors[i].bytes();
  }
  std::set<std::uint64_t> seen_;  // tensors counted, or not to be
};

}  // namespace

void take_dry(Learner& learner, const Batch& batch, Observer& observer) {
  const ObserverGuard guard(observer);
  const DryRun dry;
  learner.learn_from(batch);
}

std::optional<StepCost> step_cost(const Config& config, std::size_t index) {
  for (std::size_t i = 0; i <= index; ++i)
    if (kind_of(config.phases[i]).prunes) return std::nullopt;
  const PhaseKind& kind = kind_of(config.phases[index]);
  const BatchShape shape = kind.shape(config, config.phases[index]);
  const auto learner = kind.learner(
      {.config = config, .index = index, .options = options_to_measure(config), .hollow = true});
  StepCounter counter(*learner);
  counter.cost.images = shape.images;
  take_dry(*learner,
           sample_batch(config, shape, patch_selection(config, Split::train), Contents::none),
           counter);
  return counter.cost;
}

}  // namespace hg
