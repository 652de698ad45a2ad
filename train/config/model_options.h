// The model that a configuration describes.
#pragma once

#include "nn/vit.h"
#include "train/config/config.h"

namespace hg {

nn::AttentionOptions attention_options(const Config& config);
nn::VitOptions vit_options(const Config& config);

// Where the model runs; "auto" is a GPU, if there is one.
Device device_of(const RunConfig& run);

}  // namespace hg
