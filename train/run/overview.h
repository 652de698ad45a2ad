// What a run tells before it begins.
#pragma once

#include "train/step/open_data.h"

namespace hg {

// A line each on data, model, phases and device. Counts steps, so not while a meter's books are
// open.
std::vector<std::string> overview(const Config& config, const PhaseData& data);

}  // namespace hg
