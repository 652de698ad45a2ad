// Weights that a run begins with, from another run or program (run.init_from).
#pragma once

#include <optional>
#include <set>

#include "train/store/model.h"

namespace hg {

struct InitialWeights {
  Safetensors weights;
  std::string source;              // the file, for messages
  std::vector<std::string> notes;  // what was done to make them fit
  std::set<std::string> left_out;  // names of tensors that did not
};

// None: the run begins with random weights. A head for another number of classes is left out;
// positions of another grid and the projection of patches of another size are resampled. Throws
// UsageError, naming file and tensor, unless the file has tensors of this model and all of them
// have its shapes (those aside that the first phase begins anew).
std::optional<InitialWeights> initial_weights(const Config& config);

// What was done to make the file fit, then a line on tensors of the model that it does not have,
// and one on those it has beside.
std::vector<std::string> differences(const InitialWeights& init, const Config& config,
                                     const NamedTensors& model);

}  // namespace hg
