// The step of supervised training: a batch's loss by labels, and its gradients.
#pragma once

#include "train/config/config.h"
#include "train/step/groups.h"
#include "train/step/teacher.h"

namespace hg {

struct StepInput {
  Tensor images, labels;  // [B,C,H,W] or kept patches [B, k, C p p]; [B]
  LossConfig loss;
  std::uint64_t seed = 0;  // of dropout
  std::int64_t step = 0;
  Tensor keep{};                        // [B,k], the patches kept; undefined: all
  Tensor boxes{}, has_box{};            // [B,4], [B]: to be found too; undefined: the class alone
  const FrozenParts* frozen = nullptr;  // none: nothing is
  const Teacher* teacher = nullptr;     // of [loss]; none: there is none
  // A group's output of what is frozen in front; without it, it is computed.
  std::function<Tensor(const GroupPlan& plan, std::int64_t group)> front{};
};

// As the functions of groups.h of the same names.
Batchwise forward_backward(const nn::Vit& model, const std::vector<nn::Parameter>& trained,
                           const StepInput& input);
[[noreturn]] void explain_non_finite_step(const nn::Vit& model,
                                          const std::vector<nn::Parameter>& trained,
                                          const StepInput& input);

}  // namespace hg
