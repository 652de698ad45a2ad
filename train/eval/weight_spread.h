// How sparse the attention weights of a model have become, for reports.
#pragma once

#include <optional>

#include "data/loader.h"
#include "nn/vit.h"

namespace hg {

struct WeightSpread {
  double small_share = 0;        // of weights below 1e-3 / keys
  double effective_support = 0;  // mean over queries of exp(entropy of their weights)
};

// Over all layers, heads and queries of these images, in phase eval; none where no layer has
// weights of tokens on tokens.
std::optional<WeightSpread> weight_spread(const nn::Vit& model, const Batch& batch);

}  // namespace hg
