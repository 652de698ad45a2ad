#include "train/config/selection.h"

#include <algorithm>

namespace hg {

std::int64_t patches_of(const ModelConfig& m) {
  const std::int64_t side = m.img_size / m.patch_size;
  return side * side;
}

KeptPatches kept_patches(const Config& config) {
  const SelectConfig& s = config.select;
  const std::int64_t patches = patches_of(config.model), first = s.top_k.of(patches);
  if (!s.heuristic) return {patches, patches};
  return {first, s.top_k_end.value == 0 ? first : s.top_k_end.of(patches)};
}

std::optional<PatchSelection> patch_selection(const Config& config, const PhaseConfig& phase,
                                              Split split) {
  const SelectConfig& s = config.select;
  const KeptPatches kept = kept_patches(config);
  const bool training = split == Split::train;
  const std::int64_t fewest = training ? std::min(kept.first, kept.last) : kept.last;
  if (fewest == patches_of(config.model) || !(training || s.eval == SelectConfig::Eval::topk))
    return {};
  PatchSelection selection;
  selection.score = {*s.heuristic, s.form, config.model.patch_size, s.bins};
  selection.keep = kept.last;
  selection.mode = s.mode;
  selection.probabilistic = training && s.probabilistic;
  if (!training) return selection;  // of every batch
  selection.keep = kept.first;
  selection.keep_end = kept.last;
  selection.epochs = phase.train.epochs;
  selection.prob = s.prob;
  selection.decay = s.decay;
  selection.decay_rate = s.prob_decay_rate;
  return selection;
}

std::optional<PatchSelection> patch_selection(const Config& config, const PhaseConfig& phase,
                                              std::int64_t epoch) {
  auto selection = patch_selection(config, phase, Split::train);
  if (!selection) return {};
  selection->keep = selection->kept_in(epoch);
  selection->keep_end.reset();
  if (selection->keep == patches_of(config.model)) return {};
  return selection;
}

bool drops_patches(const Config& config) {
  const KeptPatches kept = kept_patches(config);
  return std::min(kept.first, kept.last) < patches_of(config.model) &&
         config.select.mode == PatchSelection::Mode::drop;
}

}  // namespace hg
