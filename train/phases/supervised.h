// Learning classes, and boxes if asked to, from labelled images; what the kinds supervised,
// finetune and detect share.
#pragma once

#include "train/phases/learner.h"
#include "train/step/class_step.h"

namespace hg {

struct SupervisedOptions {
  std::vector<std::string> freeze{},
      anew{};                   // by the beginnings of names, as for trained_parameters()
  bool cache_features = false;  // of the frozen front
  bool boxes = false;           // to be found, too
};

class SupervisedLearner final : public Learner {
 public:
  SupervisedLearner(const LearnerSetting& setting, const SupervisedOptions& options);
  Batchwise learn_from(const Batch& batch) override;
  std::optional<EpochReport> judge(Loader& test, const std::function<bool()>& stop) override;

 private:
  void make_caches(const LearnerSetting& setting);
  // The output of the frozen front, out of the cache or into it.
  Tensor cached_front(FeatureCache& cache, const Batch& part) const;
  Tensor cached_test_features(const Batch& batch);

  const std::unique_ptr<const Teacher> teacher_;
  ClassTask task_;
  std::optional<FeatureCache> train_cache_, test_cache_;
};

// Batches of batch_size images with labels of the model's classes.
BatchShape labelled_batch(const Config& config, const PhaseConfig& phase);

}  // namespace hg
