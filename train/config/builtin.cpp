#include "train/config/config.h"

namespace hg {

// Written by CMake from train/configs/*.toml.
const std::vector<BuiltinConfig>& builtin_configs() {
  static const std::vector<BuiltinConfig> configs = {
#include "train/config/builtin.inc"
  };
  return configs;
}

}  // namespace hg
