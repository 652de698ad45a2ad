// contrastive: embeddings of images of a class, or of two views of an image, are drawn together and
// those of others apart (METHODS.md, section 6). The loss is over a whole batch; the projector that
// makes embeddings of features is left behind at the end.
#pragma once

#include "nn/projector.h"
#include "train/phases/gradient_phase.h"
#include "train/step/contrastive_loss.h"

namespace hg {

class ContrastivePhase final : public GradientPhase {
 public:
  ContrastivePhase(const PhaseSetting& setting, const Safetensors* before, bool resumed);
  // The loss on test images in a fixed random order, in batches as in training.
  std::optional<EpochReport> finish_epoch(const std::function<bool()>& stop) override;

 private:
  Batchwise learn_from(const Batch& batch) override;
  [[noreturn]] void explain(const Batch& batch) override;

  GroupPass embeddings_of(const GroupPlan& plan, const Batch& batch) const;
  Batchwise two_passes(const GroupStep& step, const Batch& batch) const;

  const nn::Projector projector_;
  const ContrastiveLoss train_loss_, test_loss_;
};

// Throws UsageError if the phase cannot make its batches of these images.
void check_contrastive_data(const PhaseConfig& phase, std::size_t index, const RunData& data);

}  // namespace hg
