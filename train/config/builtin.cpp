#include "train/config/config.h"

namespace hg {

// Written by CMake from train/configs/*.toml.
const std::vector<BuiltinText>& builtin_configs() {
  static const std::vector<BuiltinText> configs = {
#include "train/config/builtin.inc"
  };
  return configs;
}

}  // namespace hg
