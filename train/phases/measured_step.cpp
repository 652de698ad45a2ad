#include "train/phases/measured_step.h"

#include <algorithm>

#include "tensor/backend.h"
#include "tensor/base/clock.h"
#include "tensor/base/usage_error.h"
#include "tensor/transfer.h"
#include "train/config/selection.h"
#include "train/phases/registry.h"
#include "train/phases/sample_batch.h"
#include "train/phases/supervised.h"
#include "train/step/flop_counter.h"

namespace hg {
namespace {

std::size_t phase_to_measure(const Config& config, std::optional<std::int64_t> asked) {
  const auto& phases = config.phases;
  if (asked) {
    usage_require(*asked >= 0 && *asked < std::ssize(phases), "--phase", "expected 0 to {}, got {}",
                  phases.size() - 1, *asked);
    const PhaseConfig& phase = phases[static_cast<std::size_t>(*asked)];
    usage_require(kind_of(phase).learner != nullptr, "--phase",
                  "expected a phase with training steps, got {}, \"{}\"", *asked, phase.kind);
    return static_cast<std::size_t>(*asked);
  }
  const auto first = [&](auto&& wanted) {
    return static_cast<std::size_t>(std::find_if(phases.begin(), phases.end(), wanted) -
                                    phases.begin());
  };
  const std::size_t classes = first([](const auto& p) { return kind_of(p).learns_classes; });
  if (classes < phases.size()) return classes;
  const std::size_t any = first([](const auto& p) { return kind_of(p).learner != nullptr; });
  return any < phases.size() ? any : 0;
}

const PhaseKind& kind_to_measure(const PhaseConfig& phase) {
  const PhaseKind& kind = kind_of(phase);
  return kind.learner ? kind : kSupervised;
}

Batch random_batch(const Config& config, const PhaseConfig& phase, const BatchShape& shape,
                   Split split) {
  Batch batch =
      sample_batch(config, shape, patch_selection(config, phase, split), Contents::random);
  const Device device = options_to_measure(config).device;
  for (Tensor* t : batch.tensors()) *t = to_device(*t, device);
  return batch;
}

Batch batch_of_phase(const Config& config, const PhaseConfig& phase) {
  return random_batch(config, phase, kind_to_measure(phase).shape(config, phase), Split::train);
}

}  // namespace

MeasuredStep::MeasuredStep(const Config& config, std::optional<std::int64_t> phase)
    : MeasuredStep(config, phase_to_measure(config, phase)) {}

MeasuredStep::MeasuredStep(const Config& config, std::size_t index)
    : Measured(batch_of_phase(config, config.phases[index])),
      phase_(config.phases[index].kind),
      learner_(
          kind_to_measure(config.phases[index])
              .learner({.config = config, .index = index, .options = options_to_measure(config)})),
      optimizer_(learner_->trained(), config.phases[index].train,
                 owning_ranks(model().parameters().device())) {}

void MeasuredStep::operator()() {
  constexpr double kLearningRate = 1e-4;
  ++batch_.step;
  const Batchwise done = learner_->learn_from(batch_);
  if (!optimizer_.step(done.gradients, kLearningRate, done.ranges, done.loss))
    learner_->explain(batch_);
  loss_ = done.loss;
  backend(device()).synchronize();
}

std::int64_t MeasuredStep::lanes() const {
  return plan_groups(model(), batch_, learner_->tokens_per_image(batch_)).lanes;
}

MeasuredPass::MeasuredPass(const Config& config)
    : Measured(random_batch(config, config.phases.back(),
                            labelled_batch(config, config.phases.back()), Split::test)),
      model_(options_to_measure(config), static_cast<std::uint64_t>(config.run.seed)) {}

void MeasuredPass::operator()() {
  evaluate_logits(model_, batch_);
  backend(device()).synchronize();
}

double Measured::timed_ms() {
  const std::int64_t start = now_ns();
  (*this)();
  return static_cast<double>(now_ns() - start) * 1e-6;
}

std::uint64_t Measured::flops() {
  FlopCounter counter;
  const ObserverGuard guard(counter);
  (*this)();
  return counter.flops();
}

}  // namespace hg
