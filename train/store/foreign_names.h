// Models of Hugging Face's transformers under the names that this program gives its tensors.
#pragma once

#include "train/store/safetensors.h"

namespace hg {

// ViTModel and ViTForImageClassification come with timm's names: query, key and value as the one
// qkv. Any other file stays as it is.
void take_timm_names(Safetensors& file, const std::string& source);

}  // namespace hg
