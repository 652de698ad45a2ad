// pretrain: predicts the pixels of masked patches; labels are never read. Judged on the test images
// under masks that stay the same, beside what predicting 0 would give.
#pragma once

#include "data/patch_select.h"
#include "nn/masked_patches.h"
#include "train/phases/gradient_phase.h"

namespace hg {

// Draws the patches to mask: of each image, uniformly and without replacement.
class MaskDrawer {
 public:
  // For images of those indices, each with `patches` patches; a function of key and index.
  nn::PatchMask draw(std::uint64_t key, std::span<const std::int64_t> images, std::int64_t patches,
                     std::int64_t masked);

 private:
  PatchChooser chooser_;
  CachedVector<double> equal_;
};

// Images as for Vit::logits(), and what is hidden of them.
struct MaskedImages {
  Tensor images, keep;
  nn::PatchMask mask;
};
// Their loss by the phase's options, times `share`; with predict_zero, of a prediction of 0.
Tensor masked_patch_loss(const nn::Vit& model, const nn::MaskedPatches& task,
                         const PhaseConfig& phase, const MaskedImages& masked,
                         const nn::Context& context, double share, bool predict_zero = false);

nn::MaskedPatchOptions masked_patch_options(const PhaseConfig& phase);

class PretrainPhase final : public GradientPhase {
 public:
  PretrainPhase(const PhaseSetting& setting, const Safetensors* before, bool resumed);
  std::optional<EpochReport> finish_epoch(const std::function<bool()>& stop) override;

 private:
  Batchwise learn_from(const Batch& batch) override;
  [[noreturn]] void explain(const Batch& batch) override;
  std::int64_t tokens_per_image(const Batch& batch) const override;

  std::int64_t patches_of(const Batch& batch) const;
  nn::PatchMask masks_of(const Batch& batch, const std::string& stream);
  nn::PatchMask training_masks(const Batch& batch);
  GroupPass pass_on(const Batch& batch, const GroupPlan& plan);
  // A group's share of the loss; with predict_zero, of a prediction of 0.
  Tensor loss_of(const Batch& batch, const nn::PatchMask& mask, const GroupPlan& plan,
                 std::int64_t group, const nn::Context& context, bool predict_zero = false) const;

  const PhaseConfig phase_;
  const nn::MaskedPatches task_;
  MaskDrawer drawer_;
};

}  // namespace hg
