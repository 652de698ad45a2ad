// A model that comes without a configuration: what its file tells of it.
#pragma once

#include "train/config/config.h"
#include "train/store/safetensors.h"

namespace hg {

// Whether the path names a model's file, or a folder with one in it. Files of torch.save are some,
// too: what reads one says how to convert it.
bool holds_model(const std::string& path);

// Settings of [model] by the shapes of a model's tensors, and run.init_from, so that training
// begins with them. No shape tells the number of heads: unless it is told, it is that of
// config.json, where one by Hugging Face stands beside the file, else heads are 64 wide, as timm's
// are, and `notes` says so.
struct ModelShape {
  std::vector<Setting> settings;
  std::vector<std::string> notes;
};
ModelShape shape_of_model(const std::string& path, bool heads_told);

}  // namespace hg
