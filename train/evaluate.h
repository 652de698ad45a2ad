// Test loss and classification metrics of a model over a data set.
#pragma once

#include <functional>
#include <optional>

#include "data/loader.h"
#include "nn/vit.h"
#include "train/metrics.h"

namespace hg {

struct Evaluation {
  double loss = 0;
  ConfusionMatrix confusion;
  Metrics metrics;
  std::uint64_t selection_flops = 0;  // of choosing patches, in the loader's thread
};
// Asks `stop` before each batch; none: it said yes.
std::optional<Evaluation> evaluate(const nn::Vit& model, Loader& loader,
                                   const std::function<bool()>& stop = {});

// Probabilities [classes] of each row of logits, and the most likely class (lowest on a tie).
std::int64_t most_likely(const float* row, std::int64_t classes);

}  // namespace hg
