#include "train/phases/phase_cost.h"

#include <algorithm>
#include <numeric>

#include "autograd/tape.h"
#include "tensor/run.h"
#include "train/config/selection.h"
#include "train/phases/contrastive.h"
#include "train/phases/pretrain.h"
#include "train/phases/prune.h"
#include "train/phases/supervised.h"
#include "train/step/loss.h"
#include "train/step/teacher.h"

namespace hg {
namespace {

class StepCounter final : public Observer {
 public:
  void op_end(const OpCall& call) override {
    (call.phase == Phase::backward ? cost.backward : cost.forward) +=
        call.op.cost(call.in, call.out).total();
  }
  StepCost cost;
};

// A step to be walked: its phase, the model with the phase's heads to come, and what is trained.
struct Walk {
  const Config& config;
  std::size_t index;
  nn::Vit model;
  std::optional<PatchSelection> selection;
  std::int64_t images;

  const PhaseConfig& phase() const { return config.phases[index]; }
  std::vector<nn::Parameter> trained(const std::vector<std::string>& freeze) const {
    return trained_parameters(model.parameters(), freeze, fmt::format("phase.{}.freeze", index));
  }
};

void watch(Tape& tape, const std::vector<nn::Parameter>& trained) {
  for (const nn::Parameter& p : trained) tape.watch(p.value);
}

void walk_supervised(Walk& walk) {
  const PhaseConfig& phase = walk.phase();
  const auto trained = walk.trained(supervised_options(walk.config, phase).freeze);
  const FrozenParts frozen = frozen_parts(walk.model, trained);
  const auto [images, keep] = hollow_images(walk.config.model, walk.selection, walk.images);
  Tape tape;
  watch(tape, trained);
  nn::PassRecord record = record_for(walk.config.loss);
  const nn::Context context{nullptr, &record};
  const Tensor features =
      frozen.front
          ? features_behind(walk.model, *frozen.front,
                            front_output(walk.model, *frozen.front, images, keep), context, keep)
          : walk.model.features(images, context, keep);
  const Tensor ones = Tensor::full({walk.images}, 1, DType::i64);
  const Targets targets{ones, teacher_logits(teacher_of(walk.config).get(), images, keep)};
  Tensor loss = training_loss(walk.model.classify(features), targets, record, walk.config.loss);
  if (phase.kind == "detect")
    loss = with_box_loss(loss, walk.model.boxes(features),
                         Tensor::hollow_of({DType::f32, {walk.images, 4}}), ones, walk.images);
  tape.backward(loss);
}

void walk_pretrain(Walk& walk) {
  const PhaseConfig& phase = walk.phase();
  const nn::MaskedPatches task(walk.model, masked_patch_options(phase));
  const auto [images, keep] = hollow_images(walk.config.model, walk.selection, walk.images);
  const std::int64_t patches = keep.defined() ? keep.dim(1) : patches_of(walk.config.model);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(walk.images));
  std::iota(indices.begin(), indices.end(), 0);
  const nn::PatchMask mask = MaskDrawer().draw(0, indices, patches, phase.masked_of(patches));
  Tape tape;
  watch(tape, walk.trained(frozen_with_head(phase)));
  tape.backward(masked_patch_loss(walk.model, task, phase, {images, keep, mask}, {}, 1));
}

// Rows of a batch, and what is the same in those that belong together.
Tensor contrastive_labels(const PhaseConfig& phase, std::int64_t classes) {
  const std::int64_t batch = phase.train.batch_size;
  const bool two_view = phase.views == PhaseConfig::Views::two_view;
  const std::int64_t apart = two_view                      ? batch
                             : phase.classes_per_batch > 0 ? phase.classes_per_batch
                                                           : std::min(classes, batch / 2);
  const std::int64_t rows = two_view ? 2 * batch : batch / apart * apart;
  const Tensor labels = Tensor::empty({rows}, DType::i64);
  for (std::int64_t i = 0; i < rows; ++i) labels.data<std::int64_t>()[i] = i % apart;
  return labels;
}

// Twice through the encoder: once to be compared, once more with the gradient.
void walk_contrastive(Walk& walk) {
  const PhaseConfig& phase = walk.phase();
  const nn::Projector projector(walk.model.heads(), walk.model.options().width);
  const Tensor labels = contrastive_labels(phase, walk.config.model.num_classes);
  walk.images = labels.numel();
  const auto [images, keep] = hollow_images(walk.config.model, walk.selection, walk.images);
  const auto embeddings = [&] { return projector(walk.model.features(images, {}, keep)); };
  const Tensor z = embeddings();
  Tensor dz;
  {
    Tape tape;
    tape.watch(z);
    dz = tape.backward(ContrastiveLoss(phase, 0, "train")(z, labels, 0))[z];
  }
  Tape tape;
  watch(tape, walk.trained(frozen_with_head(phase)));
  const Tensor out = embeddings();
  tape.backward({&out, 1}, {&dz, 1});
}

}  // namespace

HollowImages hollow_images(const ModelConfig& m, const std::optional<PatchSelection>& selection,
                           std::int64_t batch) {
  if (!selection || selection->mode != PatchSelection::Mode::drop)
    return {Tensor::hollow_of({DType::f32, {batch, m.in_channels, m.img_size, m.img_size}}), {}};
  const std::int64_t kept = selection->keep;
  const Tensor keep = Tensor::empty({batch, kept}, DType::i64);
  for (std::int64_t i = 0; i < batch * kept; ++i) keep.data<std::int64_t>()[i] = i % kept;
  const Shape patches{batch, kept, m.in_channels * m.patch_size * m.patch_size};
  return {Tensor::hollow_of({DType::f32, patches}), keep};
}

std::optional<StepCost> step_cost(const Config& config, std::size_t index) {
  const auto end = config.phases.begin() + static_cast<std::ptrdiff_t>(index) + 1;
  if (std::any_of(config.phases.begin(), end,
                  [](const PhaseConfig& phase) { return phase.kind == "prune"; }))
    return std::nullopt;
  Walk walk{config, index, nn::Vit(options_to_measure(config), 0, true),
            patch_selection(config, Split::train), config.phases[index].train.batch_size};
  StepCounter counter;
  const ObserverGuard guard(counter);
  const DryRun dry;
  const std::string& kind = config.phases[index].kind;
  if (kind == "pretrain")
    walk_pretrain(walk);
  else if (kind == "contrastive")
    walk_contrastive(walk);
  else
    walk_supervised(walk);
  counter.cost.images = walk.images;
  return counter.cost;
}

}  // namespace hg
