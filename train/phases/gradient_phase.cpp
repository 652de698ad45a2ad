#include "train/phases/gradient_phase.h"

namespace hg {
namespace {

Safetensors without(Safetensors weights, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    std::erase_if(weights.tensors, [&](const auto& w) { return begins_with_parts(w.first, part); });
  return weights;
}

}  // namespace

std::vector<std::string> frozen_with_head(const PhaseConfig& phase) {
  std::vector<std::string> freeze = phase.freeze;
  freeze.emplace_back("head");
  return freeze;
}

GradientPhase::GradientPhase(const PhaseSetting& s, const Safetensors* before,
                             const std::optional<LoaderOptions>& training,
                             const std::optional<LoaderOptions>& testing)
    : seed_(s.seed()),
      model_(before ? vit_options(s.config, *before, s.weights_source) : vit_options(s.config),
             static_cast<std::uint64_t>(s.config.run.seed)),
      train_loader_(*s.data.train, training ? *training : s.loading(Split::train)),
      test_loader_(*s.data.test, testing ? *testing : s.loading(Split::test)),
      metadata_(before ? before->metadata : std::map<std::string, std::string>()),
      schedule_(s.phase().train, train_loader_.batches()) {}

void GradientPhase::take_up(const PhaseSetting& s, const Safetensors* before, bool resumed,
                            const std::vector<std::string>& freeze,
                            const std::vector<std::string>& anew) {
  if (before) take_weights(model_, resumed ? *before : without(*before, anew), resumed);
  trained_ =
      hg::trained_parameters(model_.parameters(), freeze, fmt::format("phase.{}.freeze", s.index));
  frozen_ = frozen_parts(model_, trained_);
  optimizer_.emplace(trained_, s.phase().train);
}

void GradientPhase::start_epoch(std::int64_t epoch, std::int64_t first) {
  train_loader_.start_epoch(epoch, first);
}

std::optional<StepReport> GradientPhase::step() {
  if (!train_loader_.next(batch_)) return std::nullopt;
  const Batchwise done = learn_from(batch_);
  if (!optimizer_->step(done.gradients, schedule_.learning_rate(optimizer_->steps()), done.ranges,
                        done.loss))
    explain(batch_);
  return StepReport{batch_.size(),
                    done.loss,
                    done.sparsity,
                    batch_.size() * tokens_per_image(batch_),
                    batch_.selection.unscored,
                    batch_.selection.flops};
}

std::int64_t GradientPhase::tokens_per_image(const Batch& batch) const {
  return tokens_of(model_, batch.keep);
}

GroupStep GradientPhase::group_step(const Batch& batch, std::int64_t tokens) const {
  return {model_, trained_, plan_groups(model_, batch.size(), tokens), seed_, optimizer_->steps(),
          {},     &frozen_};
}

std::int64_t GradientPhase::trained_parameters() const {
  std::int64_t n = 0;
  for (const nn::Parameter& p : trained_) n += p.value.numel();
  return n;
}

std::string GradientPhase::trained_note() const {
  const std::int64_t trained = trained_parameters(), all = model_.parameters().count();
  return trained == all ? "" : fmt::format("{} of {} parameters trained", trained, all);
}

void GradientPhase::load_moments(const RunState& state) {
  optimizer_->load(state.moments, state.steps, state.source);
}

}  // namespace hg
