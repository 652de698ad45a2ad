#include "train/step/group_plan.h"

#include <algorithm>
#include <bit>

#include "tensor/ops/view.h"

namespace hg {
namespace {

constexpr std::int64_t kTokensInCache = 1200;
constexpr std::int64_t kKept = 2'200'000;    // elements that a group keeps for the backward
constexpr std::int64_t kFewestTokens = 260;  // fewer: packing weights would show
// Lanes are for threads to share, but a thread keeps the gradients of up to log2(lanes) of them:
// few lanes for a large model, whose products are large enough for several threads.
constexpr std::int64_t kTokensOfLane = 512, kMostLanes = 16;
constexpr std::int64_t kParametersPerTokenOfLane = 2600, kLanesOfLargeModels = 2;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Elements kept of each token: q, k, v and what comes of them; both inputs of each half of a block;
// the hidden layer before and after its activation.
std::int64_t kept_of_token(const nn::VitOptions& o) {
  const auto hidden = static_cast<std::int64_t>(o.mlp_ratio * static_cast<double>(o.width));
  return o.depth * (4 * o.heads * o.dim_head + 4 * o.width + 2 * hidden);
}

// How many groups of about `wanted` images a lane has: groups of one size use the allocator's
// blocks again, so a size near it that divides the lane is preferred.
std::int64_t groups_of_lane(std::int64_t images, std::int64_t wanted) {
  for (std::int64_t size = wanted + wanted / 4; size > wanted / 2; --size)
    if (images % size == 0) return images / size;
  return ceil_div(images, wanted);
}

// A power of two, which threads share best.
std::int64_t lanes_by_size(std::int64_t tokens, std::int64_t parameters) {
  const std::int64_t by_model =
      std::max(kLanesOfLargeModels, tokens * kParametersPerTokenOfLane / parameters);
  const std::int64_t most = std::min({kMostLanes, tokens / kTokensOfLane, by_model});
  return static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(1, most))));
}

Ranks* sharing_ranks() { return ranks().alone() ? nullptr : &ranks(); }

// Of a batch whose lanes are groups; undefined: it is to be cut by its sizes.
std::optional<GroupPlan> plan_of_lanes(const nn::Vit& model, const Batch& batch) {
  GroupPlan plan;
  plan.batch = batch.size();
  plan.device = model.parameters().device();
  if (counted_only(batch)) {
    plan.groups = std::min<std::int64_t>(plan.batch, 1);
    return plan;
  }
  if (plan.device == Device::cpu) return std::nullopt;
  plan.ranks = sharing_ranks();
  plan.lanes = lanes_of_batch(plan.batch, 0, 0, batch.lanes, plan.device);
  plan.groups = std::min(plan.batch, plan.lanes);
  return plan;
}

}  // namespace

bool counted_only(const Batch& batch) { return !batch.images.storage(); }

std::int64_t tokens_of(const nn::Vit& model, const Tensor& keep) {
  return (keep.defined() ? keep.dim(1) : model.options().patches()) + 1;
}

Share GroupPlan::own_images() const {
  const Share own = own_groups();
  return groups == 0 ? Share{} : Share{begin(own.first), begin(own.end)};
}

Tensor GroupPlan::part_of(const Tensor& whole, std::int64_t g) const {
  if (!whole.defined() || groups == 1) return whole;
  return slice(whole, begin(g), end(g));
}

Batch GroupPlan::part_of(const Batch& whole, std::int64_t g) const {
  Batch part;
  part.images = part_of(whole.images, g);
  part.norm = whole.norm;
  part.images = part.input(), part.norm = {};
  part.keep = part_of(whole.keep, g);
  part.labels = part_of(whole.labels, g);
  part.boxes = part_of(whole.boxes, g);
  part.has_box = part_of(whole.has_box, g);
  if (!whole.indices.empty())
    part.indices.assign(whole.indices.begin() + begin(g), whole.indices.begin() + end(g));
  part.seed = whole.seed;
  part.epoch = whole.epoch;
  part.step = whole.step;
  return part;
}

std::int64_t lanes_of_batch(std::int64_t images, std::int64_t tokens, std::int64_t parameters,
                            std::int64_t asked, Device device) {
  const bool whole = device != Device::cpu;  // large products suit it
  const std::int64_t lanes = asked > 0 ? asked
                             : whole   ? 1
                                       : lanes_by_size(images * tokens, parameters);
  return std::clamp<std::int64_t>(images, 1, lanes);
}

GroupPlan plan_groups(const nn::Vit& model, const Batch& batch, std::int64_t tokens) {
  if (const std::optional<GroupPlan> lanes = plan_of_lanes(model, batch)) return *lanes;
  GroupPlan plan;
  plan.batch = batch.size();
  plan.ranks = sharing_ranks();
  if (tokens == 0) tokens = tokens_of(model, batch.keep);
  plan.lanes =
      lanes_of_batch(plan.batch, tokens, model.parameters().count(), batch.lanes, plan.device);
  const nn::VitOptions& o = model.options();
  const std::int64_t most = std::min(kTokensInCache, kKept / kept_of_token(o));
  // All threads work on the groups of a single lane.
  const std::int64_t fewest = (plan.lanes == 1 ? 2 : 1) * kFewestTokens;
  const std::int64_t wanted = std::max<std::int64_t>({1, most / tokens, fewest / tokens});
  const std::int64_t longest = std::max<std::int64_t>(1, ceil_div(plan.batch, plan.lanes));
  plan.groups = std::min(plan.batch, plan.lanes * groups_of_lane(longest, wanted));
  return plan;
}

GroupPlan plan_evaluation(const nn::Vit& model, const Batch& batch) {
  if (const std::optional<GroupPlan> lanes = plan_of_lanes(model, batch)) return *lanes;
  GroupPlan plan;
  plan.ranks = sharing_ranks();
  plan.batch = batch.size();
  const std::int64_t most =
      std::max<std::int64_t>(1, kTokensInCache / tokens_of(model, batch.keep));
  const auto groups = static_cast<std::uint64_t>(ceil_div(plan.batch, most));
  plan.groups = std::min(plan.batch, static_cast<std::int64_t>(std::bit_ceil(groups)));
  plan.lanes = std::max<std::int64_t>(1, plan.groups);
  return plan;
}

}  // namespace hg
