// finetune: supervised training of the last blocks, final norm and head, begun anew, on what the
// rest has learnt before, which stays as it is.
#pragma once

#include "train/phases/supervised.h"

namespace hg {

// Parameters that such a phase begins anew, and those it freezes unless told otherwise, by the
// beginnings of their names.
std::vector<std::string> new_parts(const Config& config, const PhaseConfig& phase);
std::vector<std::string> parts_before_new(const Config& config, const PhaseConfig& phase);

SupervisedOptions finetune_options(const Config& config, const PhaseConfig& phase);

}  // namespace hg
