// finetune: supervised training of the last blocks, final norm and head, begun anew, on what the
// rest has learnt before, which stays as it is.
#include "tensor/base/usage_error.h"
#include "train/config/selection.h"
#include "train/phases/registry.h"
#include "train/phases/supervised.h"

namespace hg {
namespace {

// `parts`, and blocks first .. last-1
std::vector<std::string> with_blocks(std::vector<std::string> parts, std::int64_t first,
                                     std::int64_t last) {
  for (std::int64_t i = first; i < last; ++i) parts.push_back(fmt::format("blocks.{}", i));
  return parts;
}

std::vector<std::string> new_parts(const Config& config, const PhaseConfig& phase) {
  const std::int64_t depth = config.model.depth;
  return with_blocks({"norm", "head"}, depth - phase.new_blocks, depth);
}

std::vector<std::string> parts_before_new(const Config& config, const PhaseConfig& phase) {
  return with_blocks({"cls_token", "pos_embed", "patch_embed"}, 0,
                     config.model.depth - phase.new_blocks);
}

void check_blocks(Config& config, std::size_t index, const Origins& origins) {
  const std::int64_t anew = config.phases[index].new_blocks;
  usage_require(anew <= config.model.depth, origins.who(fmt::format("phase.{}.new_blocks", index)),
                "expected at most model.depth = {}, got {}", config.model.depth, anew);
}

// Stored features are those of one and the same image each epoch.
void check_cache(const Config& config, std::size_t index) {
  if (!config.phases[index].cache_features) return;
  const std::string key = fmt::format("phase.{}.cache_features", index);
  usage_require(!config.phases[index].data.augment, key,
                "needs images that stay the same: expected data.augment = false");
  const auto selection = patch_selection(config, config.phases[index], Split::train);
  if (!selection) return;
  usage_require(selection->keep_end == selection->keep, key,
                "needs patches that stay the same: expected no select.top_k_end, which keeps {} of "
                "them at first and {} at the end",
                selection->keep, *selection->keep_end);
  usage_require(!selection->probabilistic, key,
                "needs patches that stay the same: expected select.probabilistic = false");
  usage_require(selection->prob == 1 && selection->decay_rate == 0, key,
                "needs patches that stay the same: expected select.prob = 1 and "
                "select.prob_decay_rate = 0, so that every batch is filtered");
}

std::unique_ptr<Learner> learner_of(const LearnerSetting& s) {
  const PhaseConfig& phase = s.phase();
  return std::make_unique<SupervisedLearner>(
      s, SupervisedOptions{phase.freeze.empty() ? parts_before_new(s.config, phase) : phase.freeze,
                           new_parts(s.config, phase), phase.cache_features});
}

}  // namespace

const PhaseKind kFinetune{.name = "finetune",
                          .learns_classes = true,
                          .resolve = check_blocks,
                          .check = check_cache,
                          .new_parts = new_parts,
                          .shape = labelled_batch,
                          .learner = learner_of};

}  // namespace hg
