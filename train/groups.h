// A batch goes through the whole net in groups of images that stay in cache: each worker thread
// takes its groups forward and backward with its own tape, ops inside being single-threaded.
#pragma once

#include <functional>

#include "nn/vit.h"
#include "train/config.h"

namespace hg {

// A sequence's length, where the patches of `keep` are kept.
std::int64_t tokens_of(const nn::Vit& model, const Tensor& keep);

// Groups of a batch and who works on them; a pure function of sizes and threads, so that sums are
// always formed in the same order.
struct GroupPlan {
  std::int64_t batch = 0, groups = 0;  // images, and the groups they are dealt out to evenly
  int workers = 1;

  std::int64_t begin(std::int64_t g) const { return g * batch / groups; }
  std::int64_t end(std::int64_t g) const { return begin(g + 1); }
};
GroupPlan plan_groups(const nn::Vit& model, std::int64_t batch, std::int64_t tokens);

// body(worker, group) for every group; worker w takes groups w, w + workers, ... in this order.
void for_each_group(const GroupPlan& plan,
                    const std::function<void(int worker, std::int64_t group)>& body);

struct Batchwise {
  double loss = 0;                 // mean over the batch
  std::vector<Tensors> gradients;  // [worker][parameter]; workers without a group left out
};

struct StepInput {
  Tensor images, labels;  // [B,C,H,W] or kept patches [B, k, C p p]; [B]
  LossConfig loss;
  std::uint64_t seed = 0;  // of dropout
  std::int64_t step = 0;
  Tensor keep{};  // [B,k], the patches kept; undefined: all
};

// Loss and gradients of a batch; what layers learn from it without a gradient, they have learnt. A
// loss that is not finite throws, naming the first op and layer that produced such a value.
Batchwise forward_backward(const nn::Vit& model, const StepInput& input);

// Repeats the step of a loss or gradient that is not finite and throws, naming the first op, of
// forward or backward, and the layer that produced such a value.
[[noreturn]] void explain_non_finite_step(const nn::Vit& model, const StepInput& input);

// Logits [B, classes] without recording, in phase eval.
Tensor evaluate_logits(const nn::Vit& model, const Tensor& images, const Tensor& keep = {});

}  // namespace hg
