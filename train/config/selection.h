// [select] of a configuration as loader and model understand it.
#pragma once

#include <optional>

#include "data/dataset.h"
#include "data/patch_select.h"
#include "train/config/config.h"

namespace hg {

// Patches of an image.
std::int64_t patches_of(const ModelConfig& model);

// How patches are chosen in training, or in evaluation; none: all of them are kept.
std::optional<PatchSelection> patch_selection(const Config& config, Split split);

// k if training batches can be shortened, else none.
std::optional<std::int64_t> dropped_to(const Config& config);

}  // namespace hg
