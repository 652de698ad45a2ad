// What a training step costs, counted by taking it without computing it.
#pragma once

#include "tensor/observer.h"
#include "train/phases/learner.h"

namespace hg {

struct StepCost {
  std::int64_t images = 0;  // a step
  Cost forward, backward;
  std::int64_t parameters = 0;   // elements, of the model
  std::uint64_t kept_bytes = 0;  // of activations, from the forward to the backward pass
};
// Of phase `index`, with as many patches dropped as [select] drops in that epoch. None: it has no
// training steps, or what it trains depends on what a phase before it prunes.
std::optional<StepCost> step_cost(const Config& config, std::size_t index, std::int64_t epoch = 0);
// The same in its last epoch; none also if that one costs what the first does.
std::optional<StepCost> last_step_cost(const Config& config, std::size_t index);
// Lanes of its first batch; none: it has no training steps.
std::optional<std::int64_t> lanes_of_step(const Config& config, std::size_t index);
// FLOPs that its step is expected to take in each epoch, as not every batch is filtered. Empty:
// it has no cost.
std::vector<double> flops_by_epoch(const Config& config, std::size_t index);

// Takes a training step without computing it.
void take_dry(Learner& learner, const Batch& batch, Observer& observer);

}  // namespace hg
