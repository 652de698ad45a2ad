// The kinds of phases, and what the rest of the program asks about them.
#include "train/phases/registry.h"

#include <algorithm>

#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/step/teacher.h"
#include "train/store/model.h"

namespace hg {

const std::vector<const PhaseKind*>& phase_kinds() {
  static const std::vector<const PhaseKind*> kinds{&kSupervised, &kPretrain, &kContrastive,
                                                   &kFinetune,   &kDetect,   &kPrune};
  return kinds;
}

const PhaseKind& kind_of(const PhaseConfig& phase) {
  for (const PhaseKind* kind : phase_kinds())
    if (kind->name == phase.kind) return *kind;
  fail("phase", "no phase is called \"{}\"", phase.kind);
}

std::int64_t epochs_of(const PhaseConfig& phase) {
  return kind_of(phase).learner ? phase.train.epochs : 1;
}

bool is_evaluated(const PhaseConfig& phase, std::int64_t epoch) {
  return (epoch + 1) % phase.train.eval_every == 0 || epoch + 1 == epochs_of(phase);
}

bool any_phase(const Config& config, bool PhaseKind::*trait) {
  return std::any_of(config.phases.begin(), config.phases.end(),
                     [&](const PhaseConfig& phase) { return kind_of(phase).*trait; });
}

bool detects(const Config& config) { return kind_of(config.phases.back()).finds_boxes; }

bool is_training_head(std::string_view parameter) {
  for (const PhaseKind* kind : phase_kinds())
    for (const std::string_view head : words(kind->heads))
      if (begins_with_parts(parameter, head)) return true;
  return false;
}

namespace {

// Terms of [loss] act on phases that learn classes; a run of others alone would not see them.
void check_loss_terms(const Config& config) {
  if (any_phase(config, &PhaseKind::learns_classes)) return;
  const LossConfig& loss = config.loss;
  for (const auto& [key, value] : {std::pair{"sparsity", loss.sparsity},
                                   {"gate_budget", loss.gate_budget},
                                   {"mle", loss.mle},
                                   {"label_smoothing", loss.label_smoothing},
                                   {"distill", loss.distill}})
    usage_require(value == 0, fmt::format("loss.{}", key),
                  "expected 0 in a run without a phase that learns classes ({}), got {}",
                  fmt::join(kinds_that_learn_classes(), ", "), value);
}

}  // namespace

std::vector<std::string_view> kinds_that_learn_classes() {
  std::vector<std::string_view> names;
  for (const PhaseKind* kind : phase_kinds())
    if (kind->learns_classes) names.push_back(kind->name);
  return names;
}

void check_phases(const Config& config) {
  check_loss_terms(config);
  for (std::size_t i = 0; i < config.phases.size(); ++i)
    if (const PhaseKind& kind = kind_of(config.phases[i]); kind.check) kind.check(config, i);
}

void check_phases(const Config& config, const PhaseData& data) {
  const std::unique_ptr<const Teacher> teacher = teacher_of(config);
  for (std::size_t i = 0; i < config.phases.size(); ++i) {
    const PhaseKind& kind = kind_of(config.phases[i]);
    if (kind.check_data) kind.check_data(config, i, *data[i]);
    if (teacher && kind.learns_classes) teacher->require_knows(*data[i]->train);
  }
}

}  // namespace hg
