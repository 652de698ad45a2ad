// What all phases that train by gradients share: a model with perhaps heads of the phase's own,
// loaders, schedule and optimizer. A kind of phase says what a batch teaches, and how it is judged.
#pragma once

#include "train/phases/phase.h"
#include "train/step/groups.h"
#include "train/step/optimizer.h"
#include "train/step/schedule.h"

namespace hg {

// What a phase freezes whose task is not to tell classes: the classifier's head, too.
std::vector<std::string> frozen_with_head(const PhaseConfig& phase);

class GradientPhase : public TrainingPhase {
 public:
  std::int64_t batches() const final { return train_loader_.batches(); }
  std::int64_t steps() const final { return optimizer_->steps(); }
  void start_epoch(std::int64_t epoch, std::int64_t first) final;
  std::optional<StepReport> step() final;
  ModelWeights weights() const final { return {weights_of(model_), metadata_}; }
  std::int64_t trained_parameters() const final;
  NamedTensors moments() const final { return optimizer_->state(); }
  void load_moments(const RunState& state) final;

 protected:
  // `training`, `testing`: how batches to learn from and to judge by are made, if not as the
  // configuration says.
  GradientPhase(const PhaseSetting& setting, const Safetensors* before,
                const std::optional<LoaderOptions>& training = {},
                const std::optional<LoaderOptions>& testing = {});
  // To be called once, by the kind's constructor, when its heads are in model_.heads(): takes the
  // weights, except from the phase before those that begin anew, and starts to train all but what
  // `freeze` names (both as for trained_parameters()).
  void take_up(const PhaseSetting& setting, const Safetensors* before, bool resumed,
               const std::vector<std::string>& freeze, const std::vector<std::string>& anew = {});

  // Loss and gradients of a batch, and the same again, to be blamed, when they are not finite.
  virtual Batchwise learn_from(const Batch& batch) = 0;
  [[noreturn]] virtual void explain(const Batch& batch) = 0;
  // "12 of 34 parameters trained"; empty if all are.
  std::string trained_note() const;
  virtual std::int64_t tokens_per_image(const Batch& batch) const;

  // Of this batch, to run passes in; sequences have `tokens` tokens.
  GroupStep group_step(const Batch& batch, std::int64_t tokens) const;

  const std::uint64_t seed_;
  nn::Vit model_;
  std::vector<nn::Parameter> trained_;
  FrozenParts frozen_;
  std::optional<Optimizer> optimizer_;
  Loader train_loader_, test_loader_;

 private:
  const std::map<std::string, std::string> metadata_;  // of the weights it began with
  const Schedule schedule_;
  Batch batch_;
};

}  // namespace hg
