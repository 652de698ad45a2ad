// supervised: cross-entropy on labelled images (and the terms of [loss]), judged on the test
// images.
#pragma once

#include "train/phases/gradient_phase.h"
#include "train/step/frozen.h"
#include "train/step/supervised_step.h"

namespace hg {

struct SupervisedOptions {
  std::vector<std::string> freeze, anew;  // by the beginnings of names, as for trained_parameters()
  bool cache_features = false;            // of the frozen front
};

// Phases of this class: supervised, finetune and detect.
bool learns_classes(const PhaseConfig& phase);
SupervisedOptions supervised_options(const Config& config, const PhaseConfig& phase);

class SupervisedPhase : public GradientPhase {
 public:
  SupervisedPhase(const PhaseSetting& setting, const Safetensors* before, bool resumed,
                  const SupervisedOptions& options);
  std::optional<EpochReport> finish_epoch(const std::function<bool()>& stop) override;

 protected:
  virtual StepInput input_of(const Batch& batch) const;

 private:
  Batchwise learn_from(const Batch& batch) final;
  [[noreturn]] void explain(const Batch& batch) final;
  // The group's output of the frozen front, out of the cache or into it.
  Tensor cached_front(FeatureCache& cache, const Batch& batch, const GroupPlan& plan,
                      std::int64_t group) const;
  Tensor cached_test_features(const Batch& batch) const;

  const LossConfig loss_;
  const std::unique_ptr<const Teacher> teacher_;
  mutable std::optional<FeatureCache> train_cache_, test_cache_;
};

}  // namespace hg
