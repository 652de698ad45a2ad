// Test loss and metrics of a model over a data set: of its classes and, if asked for, its boxes.
#pragma once

#include <functional>
#include <optional>

#include "data/loader.h"
#include "nn/vit.h"
#include "train/eval/detection.h"
#include "train/eval/metrics.h"

namespace hg {

enum class Judged { classes, boxes };  // boxes: both

struct Evaluation {
  double loss = 0;  // with boxes, that of theirs included
  ConfusionMatrix confusion;
  Metrics metrics;                            // of the classes
  std::optional<DetectionMetrics> detection;  // of boxes
  std::uint64_t selection_flops = 0;          // of choosing patches, in the loader's thread
};
// The pooled output [B,E] for a batch, where it is not to be had by the model's pass alone.
using PooledOf = std::function<Tensor(const Batch&)>;

// Asks `stop` before each batch; none: it said yes. Judging boxes takes a model with a box head and
// images that have them.
std::optional<Evaluation> evaluate(const nn::Vit& model, Loader& loader, Judged what,
                                   const std::function<bool()>& stop = {},
                                   const PooledOf& pooled = {});

// Probabilities [classes] of each row of logits, and the most likely class (lowest on a tie).
std::int64_t most_likely(const float* row, std::int64_t classes);

}  // namespace hg
