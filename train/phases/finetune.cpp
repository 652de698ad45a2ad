#include "train/phases/finetune.h"

namespace hg {

std::vector<std::string> new_parts(const Config& config, const PhaseConfig& phase) {
  std::vector<std::string> parts{"norm", "head"};
  for (std::int64_t i = config.model.depth - phase.new_blocks; i < config.model.depth; ++i)
    parts.push_back(fmt::format("blocks.{}", i));
  return parts;
}

std::vector<std::string> parts_before_new(const Config& config, const PhaseConfig& phase) {
  std::vector<std::string> parts{"cls_token", "pos_embed", "patch_embed"};
  for (std::int64_t i = 0; i < config.model.depth - phase.new_blocks; ++i)
    parts.push_back(fmt::format("blocks.{}", i));
  return parts;
}

SupervisedOptions finetune_options(const Config& config, const PhaseConfig& phase) {
  return {phase.freeze.empty() ? parts_before_new(config, phase) : phase.freeze,
          new_parts(config, phase), phase.cache_features};
}

}  // namespace hg
