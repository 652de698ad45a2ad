// The kinds of phases. A new one is a file of its own, a line here and one in the table of
// registry.cpp.
#pragma once

#include "train/config/phase_kind.h"
#include "train/phases/phase.h"

namespace hg {

extern const PhaseKind kSupervised, kPretrain, kContrastive, kFinetune, kDetect, kPrune;

// before: weights of the phase before, or at the beginning of a run those of run.init_from, if any.
// resumed: they are this phase's own, out of a checkpoint.
std::unique_ptr<TrainingPhase> make_phase(const PhaseSetting& setting, const Safetensors* before,
                                          bool resumed);

std::vector<std::string_view> kinds_that_learn_classes();

// Throws UsageError, naming the phase and key, for what no phase of this program can do.
void check_phases(const Config& config);
// The same for what a phase cannot do with its data.
void check_phases(const Config& config, const PhaseData& data);

}  // namespace hg
