// A batch goes through the whole net in groups of images that stay in cache: each worker thread
// takes its groups forward and backward with its own tape, ops inside being single-threaded.
#pragma once

#include <functional>

#include "data/loader.h"
#include "tensor/figure.h"
#include "train/step/frozen.h"

namespace hg {

// A sequence's length, where the patches of `keep` are kept.
std::int64_t tokens_of(const nn::Vit& model, const Tensor& keep);

// Groups of a batch and who works on them; a pure function of sizes and threads, so that sums are
// always formed in the same order. On a GPU, and in a dry run, a batch is one group.
struct GroupPlan {
  std::int64_t batch = 0, groups = 0;  // images, and the groups they are dealt out to evenly
  int workers = 1;

  std::int64_t begin(std::int64_t g) const { return g * batch / groups; }
  std::int64_t end(std::int64_t g) const { return begin(g + 1); }
  // The group's part of the batch; what is undefined stays undefined.
  Tensor part_of(const Tensor& whole, std::int64_t g) const;
  Batch part_of(const Batch& whole, std::int64_t g) const;
};
// For sequences of `tokens` tokens; 0: as many as the batch's kept patches make.
GroupPlan plan_groups(const nn::Vit& model, const Batch& batch, std::int64_t tokens = 0);

// body(worker, group) for every group; worker w takes groups w, w + workers, ... in this order.
void for_each_group(const GroupPlan& plan,
                    const std::function<void(int worker, std::int64_t group)>& body);

// What a pass without recording gives for a group of images.
using PartPass = std::function<Tensor(const Batch& part)>;
// Outputs for each image, put together: [B, ...].
Tensor joined_outputs(const GroupPlan& plan, const Batch& batch, const PartPass& pass);
// Losses [1] of the groups, added up in their order.
double summed_losses(const GroupPlan& plan, const Batch& batch, const PartPass& pass);

// A training step on a batch.
struct GroupStep {
  const nn::Vit& model;                       // its layers draw and learn around the step
  const std::vector<nn::Parameter>& trained;  // what gradients are of; the rest is frozen
  const Batch& batch;
  GroupPlan plan;
  nn::PassRecord record{};              // what passes are asked to leave behind
  const FrozenParts* frozen = nullptr;  // none: nothing is
};

// What a group's images come to: their share of the loss [1], or an output for each. The context
// has draws of the step and group, the same whenever the pass is run, and a record of its own.
using GroupPass = std::function<Tensor(const Batch& part, const nn::Context& context)>;

struct Batchwise {
  Figure loss;                     // mean over the batch
  std::vector<Tensors> gradients;  // [worker][trained parameter]; workers without a group left out
  Figure sparsity;                 // the sparsity term in the loss, without its weight
  std::vector<UpdateRanges> ranges{};  // what the step may change (Vit::update_ranges)
};

// Loss and gradients of a batch; what layers learn from it without a gradient, they have learnt. A
// loss that is here and not finite comes without gradients; one that is still arriving is for the
// optimizer to look at.
Batchwise forward_backward(const GroupStep& step, const GroupPass& loss);

// A loss that no group knows alone is taken in two passes: the outputs of all images [B, ...],
// unrecorded; then, with the loss's gradient in them, each group's pass again, recorded and walked
// back from there.
Batchwise forward_backward(const GroupStep& step, const GroupPass& output,
                           const std::function<Tensor(const Tensor& outputs)>& loss);

// Logits [B, classes] without recording, in phase eval.
Tensor evaluate_logits(const nn::Vit& model, const Batch& batch);
// The same for what heads read [B, E].
Tensor evaluate_features(const nn::Vit& model, const Batch& batch);

}  // namespace hg
