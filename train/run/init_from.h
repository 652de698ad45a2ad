// Weights that a run begins with, from another run or program (run.init_from).
#pragma once

#include <optional>

#include "train/store/model.h"

namespace hg {

struct InitialWeights {
  Safetensors weights;
  std::string source;  // the file, for messages
};

// None: the run begins with random weights. Throws UsageError, naming file and tensor, unless the
// file has tensors of this model and all of them have its shapes (those aside that the first phase
// begins anew).
std::optional<InitialWeights> initial_weights(const Config& config);

// A line on tensors of the model that the file does not have, and one on those it has beside.
std::vector<std::string> differences(const InitialWeights& init, const Config& config,
                                     const NamedTensors& model);

}  // namespace hg
