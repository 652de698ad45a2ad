// A batch is cut into lanes of consecutive images, and a lane into groups that stay in cache. A
// group goes through the whole net, forward and backward, with a tape of its own. A lane adds its
// groups in their order, a balanced binary tree adds the lanes: sums do not depend on who works on
// what, so results are the same with any number of threads and ranks.
#pragma once

#include <functional>

#include "tensor/figure.h"
#include "train/ranks/packed.h"
#include "train/step/frozen.h"
#include "train/step/group_plan.h"

namespace hg {

// body(group) for every group of this rank. A worker thread takes consecutive lanes, one after the
// other. If lanes are fewer than threads, ops get several.
void for_each_group(const GroupPlan& plan, const std::function<void(std::int64_t group)>& body);

// Every rank packs what it has of each of its groups, and unpacks what the others have of theirs.
void share_groups(const GroupPlan& plan,
                  const std::function<void(Packer& to, std::int64_t group)>& pack,
                  const std::function<void(Unpacker& from, std::int64_t group)>& unpack);

// What a pass without recording gives for a group of images.
using PartPass = std::function<Tensor(const Batch& part)>;
// Outputs for each image, put together: [B, ...].
Tensor joined_outputs(const GroupPlan& plan, const Batch& batch, const PartPass& pass);
// Losses [1] of the groups, added up lane by lane.
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
  Figure loss;  // mean over the batch
  // [half][trained parameter], undefined where none arrived: what the two halves of the tree of
  // lanes come to, for the optimizer to add; one of one lane. Where ranks share the batch, one:
  // on CPUs of the parameters that this rank owns, on GPUs of all.
  std::vector<Tensors> gradients;
  Figure sparsity;                     // the sparsity term in the loss, without its weight
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
