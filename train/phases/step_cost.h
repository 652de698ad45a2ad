// What a training step costs, counted by taking it without computing it.
#pragma once

#include <optional>

#include "tensor/observer.h"
#include "train/phases/learner.h"

namespace hg {

struct StepCost {
  std::int64_t images = 0;  // a step
  Cost forward, backward;
};
// Of phase `index`, with patches dropped where [select] drops them. None: it has no training steps,
// or what it trains depends on what a phase before it prunes.
std::optional<StepCost> step_cost(const Config& config, std::size_t index);

// Takes a training step on one image, as `observer` sees it: all parameters of the model learn
// classes and, if the run ends with finding them, boxes.
void count_one_image(const Config& config, const nn::VitOptions& options,
                     const std::optional<PatchSelection>& selection, Observer& observer);

}  // namespace hg
