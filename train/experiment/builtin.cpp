#include "train/experiment/file.h"

namespace hg::experiment {

// Written by CMake from train/experiments/*.toml.
const std::vector<BuiltinText>& builtin_experiments() {
  static const std::vector<BuiltinText> experiments = {
#include "train/experiment/builtin.inc"
  };
  return experiments;
}

}  // namespace hg::experiment
