#include "train/phases/learner.h"

#include <algorithm>

#include "tensor/cpu/parallel.h"
#include "train/step/non_finite.h"

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

Learner::Learner(const LearnerSetting& s)
    : model_(s.options, static_cast<std::uint64_t>(s.config.run.seed), s.hollow) {}

void Learner::take_up(const LearnerSetting& s, const std::vector<std::string>& freeze,
                      const std::vector<std::string>& anew) {
  if (s.before) take_weights(model_, s.resumed ? *s.before : without(*s.before, anew), s.resumed);
  trained_ =
      trained_parameters(model_.parameters(), freeze, fmt::format("phase.{}.freeze", s.index));
  frozen_ = frozen_parts(model_, trained_);
}

// One thread takes the groups in their order, so that what comes first is named.
void Learner::explain(const Batch& batch) {
  const cpu::ThreadLimit one(1);
  explain_non_finite(model_, [&] { learn_from(batch); });
}

std::int64_t Learner::tokens_per_image(const Batch& batch) const {
  return tokens_of(model_, batch.keep);
}

// Some judge in groups as in training.
std::pair<std::int64_t, std::int64_t> Learner::needed_images(const Batch& batch,
                                                             Split split) const {
  const Share step = plan_groups(model_, batch, tokens_per_image(batch)).own_images();
  if (split == Split::train) return {step.first, step.end};
  const Share pass = plan_evaluation(model_, batch).own_images();
  return {std::min(step.first, pass.first), std::max(step.end, pass.end)};
}

GroupStep Learner::step_on(const Batch& batch) const {
  GroupStep step{model_, trained_, batch, plan_groups(model_, batch, tokens_per_image(batch))};
  step.frozen = &frozen_;
  return step;
}

std::int64_t Learner::trained_count() const {
  std::int64_t n = 0;
  for (const nn::Parameter& p : trained_) n += p.value.numel();
  return n;
}

std::string Learner::trained_note() const {
  const std::int64_t trained = trained_count(), all = model_.parameters().count();
  return trained == all ? "" : fmt::format("{} of {} parameters trained", trained, all);
}

}  // namespace hg
