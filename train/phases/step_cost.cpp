#include "train/phases/step_cost.h"

#include <map>
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

namespace {

// Whether steps of the phase can be counted before the run.
bool has_cost(const Config& config, std::size_t index) {
  for (std::size_t i = 0; i <= index; ++i)
    if (kind_of(config.phases[i]).prunes) return false;
  return true;
}

StepCost cost_with(const Config& config, std::size_t index,
                   const std::optional<PatchSelection>& selection) {
  const PhaseKind& kind = kind_of(config.phases[index]);
  const BatchShape shape = kind.shape(config, config.phases[index]);
  const auto learner = kind.learner(
      {.config = config, .index = index, .options = options_to_measure(config), .hollow = true});
  StepCounter counter(*learner);
  counter.cost.images = shape.images;
  take_dry(*learner, sample_batch(config, shape, selection, Contents::none), counter);
  return counter.cost;
}

}  // namespace

std::optional<StepCost> step_cost(const Config& config, std::size_t index, std::int64_t epoch) {
  if (!has_cost(config, index)) return std::nullopt;
  return cost_with(config, index, patch_selection(config, config.phases[index], epoch));
}

std::optional<StepCost> last_step_cost(const Config& config, std::size_t index) {
  const KeptPatches kept = kept_patches(config);
  const std::int64_t last = config.phases[index].train.epochs - 1;
  if (kept.first == kept.last || last == 0) return std::nullopt;
  return step_cost(config, index, last);
}

std::optional<std::int64_t> lanes_of_step(const Config& config, std::size_t index) {
  const PhaseKind& kind = kind_of(config.phases[index]);
  if (!kind.learner) return std::nullopt;
  const auto learner = kind.learner(
      {.config = config, .index = index, .options = options_to_measure(config), .hollow = true});
  const BatchShape shape = kind.shape(config, config.phases[index]);
  const Batch batch =
      sample_batch(config, shape, patch_selection(config, config.phases[index], 0), Contents::none);
  return lanes_of_batch(shape.images, learner->tokens_per_image(batch),
                        learner->model().parameters().count(), config.run.lanes,
                        learner->model().options().device);
}

std::vector<double> flops_by_epoch(const Config& config, std::size_t index) {
  std::vector<double> flops;
  if (!has_cost(config, index)) return flops;
  const PhaseConfig& phase = config.phases[index];
  std::map<std::int64_t, double> known;  // by patches kept; 0: all
  const auto flops_with = [&](const std::optional<PatchSelection>& selection) {
    const auto [at, is_new] = known.emplace(selection ? selection->keep : 0, 0);
    if (is_new) {
      const StepCost cost = cost_with(config, index, selection);
      at->second = static_cast<double>(cost.forward.flops() + cost.backward.flops());
    }
    return at->second;
  };
  for (std::int64_t epoch = 0; epoch < phase.train.epochs; ++epoch) {
    const auto selection = patch_selection(config, phase, epoch);
    const double share = selection ? filter_probability(*selection, epoch) : 0;
    flops.push_back(share * flops_with(selection) + (1 - share) * flops_with({}));
  }
  return flops;
}

}  // namespace hg
