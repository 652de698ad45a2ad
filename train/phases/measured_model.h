// A configuration's model, to be counted or timed without weights.
#pragma once

#include "nn/vit.h"
#include "train/config/config.h"

namespace hg {

// With model.attention = "fiak_pruned" and a phase that prunes, random priors, pruned as it says,
// stand for learned ones.
nn::VitOptions options_to_measure(const Config& config);

}  // namespace hg
