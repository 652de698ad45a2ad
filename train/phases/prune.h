// prune: drops what the learned priors say matters least, sets what survives to 1 (the priors are
// gone) and judges the result. It trains nothing; a phase after it does.
#pragma once

#include "nn/attention/prune.h"
#include "train/phases/phase.h"

namespace hg {

class PrunePhase final : public TrainingPhase {
 public:
  PrunePhase(const PhaseSetting& setting, const Safetensors* before, bool resumed);

  std::int64_t batches() const override { return 0; }
  std::int64_t steps() const override { return 0; }
  void start_epoch(std::int64_t, std::int64_t) override {}
  std::optional<StepReport> step() override { return std::nullopt; }
  std::optional<EpochReport> finish_epoch(const std::function<bool()>& stop) override;
  ModelWeights weights() const override { return {weights_of(*model_), metadata_}; }
  std::int64_t trained_parameters() const override { return 0; }
  NamedTensors moments() const override { return {}; }
  void load_moments(const RunState&) override {}

 private:
  void prune_model(const PhaseConfig& phase);

  std::unique_ptr<const nn::Vit> model_;
  Loader test_loader_;
  std::map<std::string, std::string> metadata_;  // "prune": how, and what came of it
  std::string note_;
};

nn::PruneOptions prune_options(const PhaseConfig& phase);

// A configuration's model, to be counted or timed without weights. With model.attention =
// "fiak_pruned" and a phase that prunes, random priors, pruned as it says, stand for learned ones.
nn::VitOptions options_to_measure(const Config& config);

}  // namespace hg
