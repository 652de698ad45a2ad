// pretrain: predicts the pixels of masked patches; labels are never read. Judged on the test images
// under masks that stay the same, beside what predicting 0 would give.
#include "train/phases/pretrain.h"

#include <cmath>

#include "data/patch_select.h"
#include "tensor/base/usage_error.h"
#include "tensor/observer.h"
#include "tensor/transfer.h"
#include "train/config/selection.h"
#include "train/phases/learner.h"
#include "train/phases/registry.h"
#include "train/step/non_finite.h"

namespace hg {
namespace {

bool drops(const PhaseConfig& phase) {
  return phase.mask_mode == nn::MaskedPatchOptions::Mode::drop;
}

class PretrainLearner final : public Learner {
 public:
  explicit PretrainLearner(const LearnerSetting& s)
      : Learner(s),
        phase_(s.phase()),
        task_(model_, {phase_.mask_mode, phase_.decoder_size, phase_.decoder_depth}) {
    take_up(s, frozen_with_head(phase_));
  }

  Batchwise learn_from(const Batch& batch) override;
  std::optional<EpochReport> judge(Loader& test, const std::function<bool()>& stop) override;
  std::int64_t tokens_per_image(const Batch& batch) const override;

 private:
  // The draws are new each epoch of training.
  nn::PatchMask masks_of(const Batch& part, const std::string& stream) const;
  // The part's share of the mean loss over `images` images; with predict_zero, of predicting 0.
  Tensor loss_of(const Batch& part, const nn::PatchMask& mask, std::int64_t images,
                 const nn::Context& context, bool predict_zero = false) const;
  double test_loss(const Batch& batch, bool predict_zero) const;

  const PhaseConfig phase_;
  const nn::MaskedPatches task_;
};

std::int64_t PretrainLearner::tokens_per_image(const Batch& batch) const {
  const std::int64_t tokens = tokens_of(model_, batch.keep);
  return drops(phase_) ? tokens - phase_.masked_of(tokens - 1) : tokens;
}

nn::PatchMask PretrainLearner::masks_of(const Batch& part, const std::string& stream) const {
  const std::int64_t patches = tokens_of(model_, part.keep) - 1;
  const nn::PatchMask drawn = draw_masks(RandomStream(part.seed, stream).key(), part.indices,
                                         patches, phase_.masked_of(patches));
  const Device device = part.images.device();
  return {to_device(drawn.masked, device), to_device(drawn.visible, device)};
}

Tensor PretrainLearner::loss_of(const Batch& part, const nn::PatchMask& mask, std::int64_t images,
                                const nn::Context& context, bool predict_zero) const {
  const Tensor target =
      nn::masked_pixels(part.images, part.keep, mask, model_.options().patch_size, phase_.norm_pix);
  const Tensor predicted = predict_zero
                               ? Tensor::zeros(target.shape(), DType::f32, target.device())
                               : task_.decode(task_.encode(part.images, part.keep, mask, context),
                                              part.keep, mask, context);
  return nn::pixel_loss(predicted, target, phase_.pixel_loss == PhaseConfig::PixelLoss::absolute,
                        static_cast<double>(part.size()) / static_cast<double>(images));
}

Batchwise PretrainLearner::learn_from(const Batch& batch) {
  const std::string stream = fmt::format("mask.{}", batch.epoch);
  return forward_backward(step_on(batch), [&](const Batch& part, const nn::Context& context) {
    return loss_of(part, masks_of(part, stream), batch.size(), context);
  });
}

double PretrainLearner::test_loss(const Batch& batch, bool predict_zero) const {
  const GroupPlan plan = plan_groups(model_, batch, tokens_per_image(batch));
  return summed_losses(plan, batch, [&](const Batch& part) {
    return loss_of(part, masks_of(part, "mask.test"), batch.size(), {}, predict_zero);
  });
}

std::optional<EpochReport> PretrainLearner::judge(Loader& test, const std::function<bool()>& stop) {
  const PhaseScope phase(Phase::eval);
  EpochReport report;
  double loss = 0, baseline = 0, images = 0;
  Batch batch;
  test.start_epoch(0);
  while (test.next(batch)) {
    if (stop()) return std::nullopt;
    const double mean = test_loss(batch, false);
    if (!std::isfinite(mean)) explain_non_finite(model_, [&] { test_loss(batch, false); });
    const auto size = static_cast<double>(batch.size());
    loss += mean * size;
    baseline += test_loss(batch, true) * size;
    images += size;
    report.data_flops += batch.selection.flops;
  }
  report.test_loss = loss / images;
  report.note = fmt::format("predicting 0 {:.4f}, {}", baseline / images, trained_note());
  return report;
}

void resolve_pretraining(Config& c, std::size_t index, const Origins& origins) {
  PhaseConfig& phase = c.phases[index];
  const std::string prefix = fmt::format("phase.{}", index);
  const ModelConfig& m = c.model;
  const bool drop = drops(phase);
  usage_require(drop || phase.decoder_size == 0, origins.who(prefix + ".decoder_size"),
                "not an option with mask_mode = \"token\" (but with drop)");
  usage_require(drop || phase.decoder_depth == 1, origins.who(prefix + ".decoder_depth"),
                "not an option with mask_mode = \"token\" (but with drop)");
  if (drop && phase.decoder_size == 0)
    phase.decoder_size = std::max<std::int64_t>(1, m.emb_size / 2);
  usage_require(!phase.norm_pix || m.in_channels * m.patch_size * m.patch_size > 1,
                origins.who(prefix + ".norm_pix"),
                "expected false with patches of one value, which has no deviation");
  const KeptPatches kept = kept_patches(c);
  const std::int64_t fewest = std::min(kept.first, kept.last);
  const bool filtered = fewest < patches_of(m);
  usage_require(!filtered || c.select.mode == PatchSelection::Mode::drop,
                origins.who("select.mode"),
                "expected \"drop\" with a phase \"pretrain\": zeroed patches are nothing to learn");
  usage_require(!drop || phase.masked_of(fewest) < fewest, origins.who(prefix + ".mask_ratio"),
                "expected less with mask_mode = \"drop\": {} masks all of {} patches",
                phase.mask_ratio, fewest);
}

}  // namespace

nn::PatchMask draw_masks(std::uint64_t key, std::span<const std::int64_t> images,
                         std::int64_t patches, std::int64_t masked) {
  const auto batch = static_cast<std::int64_t>(images.size()), visible = patches - masked;
  nn::PatchMask mask{Tensor::empty({batch, masked}, DType::i64),
                     Tensor::empty({batch, visible}, DType::i64)};
  PatchChooser chooser;
  const CachedVector<double> equal(static_cast<std::size_t>(patches), 1.0);
  std::int64_t* seen = mask.visible.data<std::int64_t>();
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::span<std::int64_t> hidden(mask.masked.data<std::int64_t>() + b * masked,
                                         static_cast<std::size_t>(masked));
    chooser.draw(equal, key, static_cast<std::uint64_t>(images[static_cast<std::size_t>(b)]),
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

const PhaseKind kPretrain{
    .name = "pretrain",
    .heads = "decoder mask_token",
    .resolve = resolve_pretraining,
    .shape = [](const Config&,
                const PhaseConfig& phase) { return BatchShape{phase.train.batch_size}; },
    .learner = [](const LearnerSetting& s) -> std::unique_ptr<Learner> {
      return std::make_unique<PretrainLearner>(s);
    }};

}  // namespace hg
