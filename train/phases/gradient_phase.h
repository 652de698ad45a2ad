// A phase that trains by gradients: a learner, loaders, schedule and optimizer.
#pragma once

#include "train/phases/learner.h"
#include "train/phases/phase.h"
#include "train/step/optimizer.h"
#include "train/step/schedule.h"

namespace hg {

class GradientPhase final : public TrainingPhase {
 public:
  GradientPhase(const PhaseSetting& setting, const Safetensors* before, bool resumed);

  std::int64_t batches() const override { return train_loader_.batches(); }
  std::int64_t steps() const override { return optimizer_.steps(); }
  void start_epoch(std::int64_t epoch, std::int64_t first) override;
  std::optional<StepReport> step() override;
  std::optional<EpochReport> finish_epoch(const std::function<bool()>& stop) override;
  ModelWeights weights() const override { return {weights_of(learner_->model()), metadata_}; }
  std::int64_t trained_parameters() const override { return learner_->trained_count(); }
  NamedTensors moments() const override { return optimizer_.state(); }
  void load_moments(const RunState& state) override;

 private:
  const std::unique_ptr<Learner> learner_;
  Loader train_loader_, test_loader_;
  const std::map<std::string, std::string> metadata_;  // of the weights it began with
  const Schedule schedule_;
  Optimizer optimizer_;
  Batch batch_;
};

}  // namespace hg
