// supervised: cross-entropy on labelled images (and the terms of [loss]), judged on the test
// images.
#pragma once

#include "train/optimizer.h"
#include "train/phases/phase.h"
#include "train/schedule.h"

namespace hg {

class SupervisedPhase final : public TrainingPhase {
 public:
  SupervisedPhase(const PhaseSetting& setting, const Safetensors* before, bool resumed);

  std::int64_t batches() const override { return train_loader_.batches(); }
  std::int64_t steps() const override { return optimizer_.steps(); }
  void start_epoch(std::int64_t epoch, std::int64_t first) override;
  std::optional<StepReport> step() override;
  std::optional<EpochReport> finish_epoch(const std::function<bool()>& stop) override;
  ModelWeights weights() const override { return {weights_of(model_), metadata_}; }
  NamedTensors moments() const override { return optimizer_.state(); }
  void load_moments(const RunState& state) override;

 private:
  const LossConfig loss_;
  const std::uint64_t seed_;
  const std::map<std::string, std::string> metadata_;  // of the weights it began with
  const nn::Vit model_;
  Optimizer optimizer_;
  Loader train_loader_, test_loader_;
  Schedule schedule_;
  Batch batch_;
};

}  // namespace hg
