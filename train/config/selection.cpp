#include "train/config/selection.h"

namespace hg {
namespace {

PatchScoreOptions score_options(const Config& config) {
  using O = PatchScoreOptions;
  const SelectConfig& s = config.select;
  O o;
  o.heuristic = s.heuristic == "contrast"   ? O::Heuristic::contrast
                : s.heuristic == "variance" ? O::Heuristic::variance
                                            : O::Heuristic::entropy;
  o.form = s.form == "paper" ? O::Form::paper : s.form == "ref" ? O::Form::ref : O::Form::robust;
  o.patch = config.model.patch_size;
  o.bins = s.bins;
  return o;
}

}  // namespace

std::int64_t patches_of(const ModelConfig& m) {
  const std::int64_t side = m.img_size / m.patch_size;
  return side * side;
}

std::optional<PatchSelection> patch_selection(const Config& config, Split split) {
  using Decay = PatchSelection::Decay;
  const SelectConfig& s = config.select;
  const std::int64_t patches = patches_of(config.model), keep = s.top_k.of(patches);
  const bool training = split == Split::train;
  if (s.heuristic == "none" || keep == patches || !(training || s.eval == "topk")) return {};
  PatchSelection selection;
  selection.score = score_options(config);
  selection.keep = keep;
  selection.mode = s.mode == "zero" ? PatchSelection::Mode::zero : PatchSelection::Mode::drop;
  selection.probabilistic = training && s.probabilistic;
  if (!training) return selection;  // of every batch
  selection.prob = s.prob;
  selection.decay = s.decay == "exp"            ? Decay::exp
                    : s.decay == "ref_compound" ? Decay::ref_compound
                                                : Decay::inverse;
  selection.decay_rate = s.prob_decay_rate;
  return selection;
}

std::optional<std::int64_t> dropped_to(const Config& config) {
  const auto selection = patch_selection(config, Split::train);
  if (!selection || selection->mode == PatchSelection::Mode::zero) return {};
  return selection->keep;
}

}  // namespace hg
