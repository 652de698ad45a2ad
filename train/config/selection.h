// [select] of a configuration as loader and model understand it.
#pragma once

#include <optional>

#include "data/dataset.h"
#include "data/patch_select.h"
#include "train/config/config.h"

namespace hg {

// Patches of an image.
std::int64_t patches_of(const ModelConfig& model);

// How many of them the first and the last epoch of a phase keep, in batches that are filtered.
struct KeptPatches {
  std::int64_t first = 0, last = 0;
};
KeptPatches kept_patches(const Config& config);

// How patches are chosen in the phase's training, or in evaluation; none: all of them are kept.
std::optional<PatchSelection> patch_selection(const Config& config, const PhaseConfig& phase,
                                              Split split);
// The same in one epoch of training, with its k throughout.
std::optional<PatchSelection> patch_selection(const Config& config, const PhaseConfig& phase,
                                              std::int64_t epoch);

// Whether training batches can be shortened.
bool drops_patches(const Config& config);

}  // namespace hg
