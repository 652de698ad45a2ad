// What a training step of a phase costs, counted by walking it without computing it.
#pragma once

#include <optional>

#include "data/patch_select.h"
#include "tensor/op.h"
#include "train/config/config.h"

namespace hg {

// Images without contents, as a model takes them; with a selection that drops patches the first
// ones are kept, keep [B, k].
struct HollowImages {
  Tensor images, keep;
};
HollowImages hollow_images(const ModelConfig& model, const std::optional<PatchSelection>& selection,
                           std::int64_t batch);

struct StepCost {
  std::int64_t images = 0;  // a step
  Cost forward, backward;
};
// Of phase `index`, with patches dropped where [select] drops them. None: it has no training steps,
// or what it trains depends on what a phase before it prunes.
std::optional<StepCost> step_cost(const Config& config, std::size_t index);

}  // namespace hg
