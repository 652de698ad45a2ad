// supervised: cross-entropy on labelled images (and the terms of [loss]), judged on the test
// images.
#include "train/phases/supervised.h"

#include "tensor/base/usage_error.h"
#include "train/config/selection.h"
#include "train/phases/registry.h"

namespace hg {
namespace {

// The same in every epoch, as a cache needs it.
std::int64_t tokens_in(const LearnerSetting& s, Split split) {
  const auto selection = patch_selection(s.config, s.phase(), split);
  const bool drops = selection && selection->mode == PatchSelection::Mode::drop;
  return 1 + (drops ? selection->keep : patches_of(s.config.model));
}

}  // namespace

SupervisedLearner::SupervisedLearner(const LearnerSetting& s, const SupervisedOptions& options)
    : Learner(s),
      teacher_(teacher_of(s.config)),
      task_{s.config.loss, options.boxes, teacher_.get()} {
  take_up(s, options.freeze, options.anew);
  if (options.cache_features && s.data) make_caches(s);
}

void SupervisedLearner::make_caches(const LearnerSetting& s) {
  const std::string key = fmt::format("phase.{}.cache_features", s.index);
  usage_require(frozen_.front.has_value(), key,
                "expected false with phase.{}.freeze, which leaves the embedding to be trained",
                s.index);
  const std::int64_t width = model_.options().width;
  const Device device = model_.options().device;
  train_cache_.emplace(s.data->train->size(), tokens_in(s, Split::train), width, key, device);
  test_cache_.emplace(s.data->test->size(), tokens_in(s, Split::test), width, key, device);
  task_.front = [this](const Batch& part) { return cached_front(*train_cache_, part); };
}

Tensor SupervisedLearner::cached_front(FeatureCache& cache, const Batch& part) const {
  return cache.of(part.indices,
                  [&] { return front_output(model_, *frozen_.front, part.images, part.keep); });
}

Batchwise SupervisedLearner::learn_from(const Batch& batch) {
  return learn_classes(step_on(batch), task_);
}

Tensor SupervisedLearner::cached_test_features(const Batch& batch) {
  return joined_outputs(plan_evaluation(model_, batch), batch, [&](const Batch& part) {
    return features_behind(model_, *frozen_.front, cached_front(*test_cache_, part), {}, part.keep);
  });
}

std::optional<EpochReport> SupervisedLearner::judge(Loader& test,
                                                    const std::function<bool()>& stop) {
  PooledOf pooled;
  if (test_cache_) pooled = [this](const Batch& batch) { return cached_test_features(batch); };
  std::optional<EpochReport> report =
      report_on(model_, test, task_.boxes ? Judged::boxes : Judged::classes, stop, pooled);
  if (!report) return report;
  if (const std::string trained = trained_note(); !trained.empty())
    report->note += (report->note.empty() ? "" : "  ") + trained;
  if (task_.boxes || task_.loss.sparsity == 0) return report;
  Batch batch;
  test.start_epoch(0);
  if (test.next(batch)) report->spread = weight_spread(model_, batch);
  return report;
}

BatchShape labelled_batch(const Config& config, const PhaseConfig& phase) {
  return {phase.train.batch_size, config.model.num_classes};
}

const PhaseKind kSupervised{.name = "supervised",
                            .learns_classes = true,
                            .shape = labelled_batch,
                            .learner = [](const LearnerSetting& s) -> std::unique_ptr<Learner> {
                              return std::make_unique<SupervisedLearner>(
                                  s, SupervisedOptions{.freeze = s.phase().freeze});
                            }};

}  // namespace hg
