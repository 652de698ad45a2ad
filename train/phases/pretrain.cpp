#include "train/phases/pretrain.h"

#include <cmath>

#include "tensor/observer.h"
#include "tensor/transfer.h"
#include "train/step/non_finite.h"

namespace hg {
namespace {

nn::PatchMask part_of(const nn::PatchMask& mask, const GroupPlan& plan, std::int64_t g) {
  return {plan.part_of(mask.masked, g), plan.part_of(mask.visible, g)};
}

}  // namespace

nn::MaskedPatchOptions masked_patch_options(const PhaseConfig& phase) {
  return {phase.mask_mode, phase.decoder_size, phase.decoder_depth};
}

Tensor masked_patch_loss(const nn::Vit& model, const nn::MaskedPatches& task,
                         const PhaseConfig& phase, const MaskedImages& masked,
                         const nn::Context& context, double share, bool predict_zero) {
  const auto& [images, keep, mask] = masked;
  const Tensor target =
      nn::masked_pixels(images, keep, mask, model.options().patch_size, phase.norm_pix);
  const Tensor predicted =
      predict_zero ? Tensor::zeros(target.shape(), DType::f32, target.device())
                   : task.decode(task.encode(images, keep, mask, context), keep, mask, context);
  return nn::pixel_loss(predicted, target, phase.pixel_loss == PhaseConfig::PixelLoss::absolute,
                        share);
}

nn::PatchMask MaskDrawer::draw(std::uint64_t key, std::span<const std::int64_t> images,
                               std::int64_t patches, std::int64_t masked) {
  const auto batch = static_cast<std::int64_t>(images.size()), visible = patches - masked;
  nn::PatchMask mask{Tensor::empty({batch, masked}, DType::i64),
                     Tensor::empty({batch, visible}, DType::i64)};
  equal_.assign(static_cast<std::size_t>(patches), 1.0);
  std::int64_t* seen = mask.visible.data<std::int64_t>();
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::span<std::int64_t> hidden(mask.masked.data<std::int64_t>() + b * masked,
                                         static_cast<std::size_t>(masked));
    chooser_.draw(equal_, key, static_cast<std::uint64_t>(images[static_cast<std::size_t>(b)]),
                  hidden);
    auto next = hidden.begin();
    for (std::int64_t i = 0; i < patches; ++i)
      if (next != hidden.end() && *next == i)
        ++next;
      else
        *seen++ = i;
  }
  return mask;
}

PretrainPhase::PretrainPhase(const PhaseSetting& s, const Safetensors* before, bool resumed)
    : GradientPhase(s, before), phase_(s.phase()), task_(model_, masked_patch_options(phase_)) {
  take_up(s, before, resumed, frozen_with_head(phase_));
}

std::int64_t PretrainPhase::patches_of(const Batch& batch) const {
  return tokens_of(model_, batch.keep) - 1;
}

std::int64_t PretrainPhase::tokens_per_image(const Batch& batch) const {
  const std::int64_t patches = patches_of(batch);
  return 1 + patches -
         (phase_.mask_mode == nn::MaskedPatchOptions::Mode::drop ? phase_.masked_of(patches) : 0);
}

nn::PatchMask PretrainPhase::masks_of(const Batch& batch, const std::string& stream) {
  const std::int64_t patches = patches_of(batch);
  const nn::PatchMask drawn = drawer_.draw(RandomStream(seed_, stream).key(), batch.indices,
                                           patches, phase_.masked_of(patches));
  const Device device = batch.images.device();
  return {to_device(drawn.masked, device), to_device(drawn.visible, device)};
}

// New ones each epoch, which steps tell of a run that was resumed as well.
nn::PatchMask PretrainPhase::training_masks(const Batch& batch) {
  return masks_of(batch, fmt::format("mask.{}", steps() / batches()));
}

Tensor PretrainPhase::loss_of(const Batch& batch, const nn::PatchMask& all, const GroupPlan& plan,
                              std::int64_t g, const nn::Context& context, bool predict_zero) const {
  const Tensor images = plan.part_of(batch.images, g), keep = plan.part_of(batch.keep, g);
  const double share = static_cast<double>(images.dim(0)) / static_cast<double>(plan.batch);
  return masked_patch_loss(model_, task_, phase_, {images, keep, part_of(all, plan, g)}, context,
                           share, predict_zero);
}

GroupPass PretrainPhase::pass_on(const Batch& batch, const GroupPlan& plan) {
  return [this, &batch, &plan, mask = training_masks(batch)](std::int64_t g,
                                                             const nn::Context& context) {
    return loss_of(batch, mask, plan, g, context);
  };
}

Batchwise PretrainPhase::learn_from(const Batch& batch) {
  const GroupStep step = group_step(batch, tokens_per_image(batch));
  return forward_backward(step, pass_on(batch, step.plan));
}

void PretrainPhase::explain(const Batch& batch) {
  const GroupStep step = group_step(batch, tokens_per_image(batch));
  explain_non_finite_step(step, pass_on(batch, step.plan));
}

std::optional<EpochReport> PretrainPhase::finish_epoch(const std::function<bool()>& stop) {
  const PhaseScope phase(Phase::eval);
  EpochReport report;
  double loss = 0, baseline = 0, images = 0;
  Batch batch;
  test_loader_.start_epoch(0);
  while (test_loader_.next(batch)) {
    if (stop()) return std::nullopt;
    const nn::PatchMask mask = masks_of(batch, "mask.test");
    const GroupPlan plan = plan_groups(model_, batch.size(), tokens_per_image(batch));
    const auto total = [&](bool zero) {
      return summed_losses(plan,
                           [&](std::int64_t g) { return loss_of(batch, mask, plan, g, {}, zero); });
    };
    const double mean = total(false);
    if (!std::isfinite(mean))
      explain_non_finite(model_, [&] { loss_of(batch, mask, {batch.size(), 1, 1}, 0, {}); });
    const auto size = static_cast<double>(batch.size());
    loss += mean * size;
    baseline += total(true) * size;
    images += size;
    report.data_flops += batch.selection.flops;
  }
  report.test_loss = loss / images;
  report.note = fmt::format("predicting 0 {:.4f}, {}", baseline / images, trained_note());
  return report;
}

}  // namespace hg
