#include "train/phases/supervised.h"

#include "tensor/base/usage_error.h"
#include "train/config/selection.h"
#include "train/phases/finetune.h"

namespace hg {
namespace {

std::int64_t tokens_in(const Config& config, Split split) {
  const auto selection = patch_selection(config, split);
  const bool drops = selection && selection->mode == PatchSelection::Mode::drop;
  return 1 + (drops ? selection->keep : patches_of(config.model));
}

}  // namespace

bool learns_classes(const PhaseConfig& phase) {
  return phase.kind == "supervised" || phase.kind == "finetune" || phase.kind == "detect";
}

SupervisedOptions supervised_options(const Config& config, const PhaseConfig& phase) {
  if (phase.kind == "finetune") return finetune_options(config, phase);
  return {phase.freeze, {}, false};
}

SupervisedPhase::SupervisedPhase(const PhaseSetting& s, const Safetensors* before, bool resumed,
                                 const SupervisedOptions& options)
    : GradientPhase(s, before), loss_(s.config.loss), teacher_(teacher_of(s.config)) {
  take_up(s, before, resumed, options.freeze, options.anew);
  if (!options.cache_features) return;
  const std::string key = fmt::format("phase.{}.cache_features", s.index);
  usage_require(frozen_.front.has_value(), key,
                "expected false with phase.{}.freeze, which leaves the embedding to be trained",
                s.index);
  const std::int64_t width = model_.options().width;
  const Device device = model_.options().device;
  train_cache_.emplace(s.data.train->size(), tokens_in(s.config, Split::train), width, key, device);
  test_cache_.emplace(s.data.test->size(), tokens_in(s.config, Split::test), width, key, device);
}

Tensor SupervisedPhase::cached_front(FeatureCache& cache, const Batch& batch, const GroupPlan& plan,
                                     std::int64_t g) const {
  const auto first = static_cast<std::size_t>(plan.begin(g));
  const auto count = static_cast<std::size_t>(plan.end(g)) - first;
  return cache.of(std::span(batch.indices).subspan(first, count), [&] {
    return front_output(model_, *frozen_.front, plan.part_of(batch.images, g),
                        plan.part_of(batch.keep, g));
  });
}

StepInput SupervisedPhase::input_of(const Batch& batch) const {
  StepInput input{batch.images, batch.labels, loss_, seed_, steps(), batch.keep};
  input.frozen = &frozen_;
  input.teacher = teacher_.get();
  if (train_cache_)
    input.front = [this, &batch](const GroupPlan& plan, std::int64_t g) {
      return cached_front(*train_cache_, batch, plan, g);
    };
  return input;
}

Batchwise SupervisedPhase::learn_from(const Batch& batch) {
  return forward_backward(model_, trained_, input_of(batch));
}

void SupervisedPhase::explain(const Batch& batch) {
  explain_non_finite_step(model_, trained_, input_of(batch));
}

Tensor SupervisedPhase::cached_test_features(const Batch& batch) const {
  const GroupPlan plan = plan_groups(model_, batch.size(), tokens_of(model_, batch.keep));
  return joined_outputs(plan, [&](std::int64_t g) {
    return features_behind(model_, *frozen_.front, cached_front(*test_cache_, batch, plan, g), {},
                           plan.part_of(batch.keep, g));
  });
}

std::optional<EpochReport> SupervisedPhase::finish_epoch(const std::function<bool()>& stop) {
  PooledOf pooled;
  if (test_cache_) pooled = [this](const Batch& batch) { return cached_test_features(batch); };
  std::optional<EpochReport> report = judge(model_, test_loader_, Judged::classes, stop, pooled);
  if (report) report->note = trained_note();
  if (!report || loss_.sparsity == 0) return report;
  Batch batch;
  test_loader_.start_epoch(0);
  if (test_loader_.next(batch)) report->spread = weight_spread(model_, batch.images, batch.keep);
  return report;
}

}  // namespace hg
