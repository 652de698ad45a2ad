// What an epoch of a phase comes to on the test images.
#pragma once

#include <map>

#include "train/eval/evaluate.h"
#include "train/eval/weight_spread.h"

namespace hg {

struct Scores {
  double accuracy = 0, micro_f1 = 0, macro_f1 = 0;
};

// What stands in the row of an epoch; none where the phase has no such figure.
struct EpochReport {
  std::optional<double> test_loss;
  std::optional<Scores> scores;
  std::uint64_t data_flops = 0;
  std::map<std::string, double> figures{};     // for summary.json, beside the scores
  std::string note{};                          // for the line of the epoch, beside the figures
  std::optional<ConfusionMatrix> confusion{};  // of the classes
  std::optional<WeightSpread> spread{};  // on the first test batch, where there is a sparsity term
};

// Judges a classifier, or detector, on the loader's images, by evaluate(); none: `stop` said yes.
// Accuracy is that of classes, also of a detector; its F1 asks for the right box too.
std::optional<EpochReport> report_on(const nn::Vit& model, Loader& loader, Judged what,
                                     const std::function<bool()>& stop,
                                     const PooledOf& pooled = {});

}  // namespace hg
