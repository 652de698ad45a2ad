// What must be the same on all ranks, so that their replicas stay the same.
#pragma once

#include "train/ranks/ranks.h"
#include "train/step/open_data.h"
#include "train/store/safetensors.h"

namespace hg {

// Throws UsageError that names the first rank whose text is another than rank 0's. Called by all.
void check_same(Ranks& ranks, std::string_view what, const std::string& text);

std::string fingerprint_of(const NamedTensors& tensors);

// That every rank has a lane of each batch, as one without would only wait.
void check_lanes(const Config& config);

// Program, kind of CPU and configuration of all ranks; that they have work, and GPUs of their own
// if they are to work on such.
void check_ranks(const Config& config);
// And their data.
void check_ranks(const Config& config, const PhaseData& data);

// Links the ranks' GPUs, where they work on such.
void link_gpus(const Config& config);

}  // namespace hg
