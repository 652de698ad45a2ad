#include "train/config/selection.h"

namespace hg {

std::int64_t patches_of(const ModelConfig& m) {
  const std::int64_t side = m.img_size / m.patch_size;
  return side * side;
}

std::optional<PatchSelection> patch_selection(const Config& config, Split split) {
  const SelectConfig& s = config.select;
  const std::int64_t patches = patches_of(config.model), keep = s.top_k.of(patches);
  const bool training = split == Split::train;
  if (!s.heuristic || keep == patches || !(training || s.eval == SelectConfig::Eval::topk))
    return {};
  PatchSelection selection;
  selection.score = {*s.heuristic, s.form, config.model.patch_size, s.bins};
  selection.keep = keep;
  selection.mode = s.mode;
  selection.probabilistic = training && s.probabilistic;
  if (!training) return selection;  // of every batch
  selection.prob = s.prob;
  selection.decay = s.decay;
  selection.decay_rate = s.prob_decay_rate;
  return selection;
}

std::optional<std::int64_t> dropped_to(const Config& config) {
  const auto selection = patch_selection(config, Split::train);
  if (!selection || selection->mode == PatchSelection::Mode::zero) return {};
  return selection->keep;
}

}  // namespace hg
