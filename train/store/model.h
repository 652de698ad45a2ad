// Weights in and out of a model.
#pragma once

#include "train/config/model_options.h"
#include "train/store/safetensors.h"

namespace hg {

// A model's file, with timm's names where it has those of Hugging Face.
Safetensors read_model(const std::string& path);

// vit_options(config) of the model whose weights these are: pruned if they hold masks
// (blocks.I.attn.mask). Throws UsageError, naming `source`, where masks do not fit.
nn::VitOptions vit_options(const Config& config, const Safetensors& weights,
                           const std::string& source);

// Copies every parameter and buffer from the file. Throws UsageError, naming file, tensor and
// shapes, if one is missing, of another shape, not finite, or unknown to the model. Heads that only
// a phase of training uses may be in the file beside the model's own: they are passed over. Of a
// `foreign` file, by another program, optional buffers may be missing.
void load_weights(const nn::Vit& model, const Safetensors& file, const std::string& source,
                  bool foreign = false);

// From the phase before: what both models have, by name and shape, but for heads that only a phase
// of training uses; the rest keeps its start. With `all`, from a state of the same phase: as
// load_weights.
void take_weights(const nn::Vit& model, const Safetensors& before, bool all);

NamedTensors weights_of(const nn::Vit& model);  // parameters, then buffers

// Whether `start` is the whole name, or ends where a part of it does: "blocks.1" and "blocks.1."
// begin blocks.1.norm1.weight, but not blocks.10.norm1.weight.
bool begins_with_parts(std::string_view name, std::string_view start);

// Parameters but those whose names `freeze` begins, in that sense. Throws UsageError, naming `key`,
// for one that names nothing, or if nothing is left.
std::vector<nn::Parameter> trained_parameters(const nn::Parameters& parameters,
                                              const std::vector<std::string>& freeze,
                                              const std::string& key);

}  // namespace hg
