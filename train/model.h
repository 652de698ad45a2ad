// From a configuration to the model it describes, and weights in and out of it.
#pragma once

#include "nn/vit.h"
#include "train/config.h"
#include "train/safetensors.h"

namespace hg {

// Throws UsageError for a setting that this program cannot train yet.
nn::VitOptions vit_options(const Config& config);

// Copies every parameter and buffer from the file. Throws UsageError, naming file, tensor and
// shapes, if one is missing, of another shape, not finite, or unknown to the model.
void load_weights(const nn::Vit& model, const Safetensors& file, const std::string& source);

// From the phase before: what both models have, by name and shape; the rest keeps its start. With
// `all`, from a state of the same phase: as load_weights.
void take_weights(const nn::Vit& model, const Safetensors& before, bool all);

NamedTensors weights_of(const nn::Vit& model);  // parameters, then buffers

}  // namespace hg
