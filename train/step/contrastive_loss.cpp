#include "train/step/contrastive_loss.h"

#include "tensor/observer.h"
#include "tensor/ops/contrastive.h"
#include "tensor/ops/triplet.h"
#include "tensor/transfer.h"

namespace hg {
namespace {

using Loss = sections::PhaseOptions::Loss;

ContrastiveOptions softmax_options(const sections::PhaseOptions& phase) {
  using Form = ContrastiveOptions::Form;
  const bool hard = phase.loss == Loss::hscl || phase.loss == Loss::hcl;
  return {hard ? Form::hard : Form::all, phase.temperature, phase.beta,
          phase.loss == Loss::hcl ? phase.tau_plus : 0};
}

}  // namespace

ContrastiveLoss::ContrastiveLoss(const sections::PhaseOptions& phase, std::string_view use)
    : phase_(phase), stream_(fmt::format("contrastive.negatives.{}", use)) {}

Tensor ContrastiveLoss::labels_of(const Batch& batch) const {
  if (phase_.loss != Loss::ntxent && phase_.loss != Loss::hcl) return batch.labels;
  return to_device(Tensor::of<std::int64_t>({std::ssize(batch.indices)}, std::span(batch.indices)),
                   batch.labels.device());
}

Tensor ContrastiveLoss::operator()(const Tensor& z, const Batch& batch) const {
  const Scope scope("loss");
  const Tensor labels = labels_of(batch);
  if (phase_.loss != Loss::triplet) return contrastive_loss(z, labels, softmax_options(phase_));
  RandomStream stream(batch.seed, stream_);
  stream.seek(static_cast<std::uint64_t>(batch.step) << 32);
  return triplet_loss(z, labels, {phase_.margin, phase_.negatives}, stream);
}

}  // namespace hg
