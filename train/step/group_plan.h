// How a batch is cut into lanes and groups (train/step/groups.h), and what each rank has of them.
#pragma once

#include "data/loader.h"
#include "nn/vit.h"
#include "train/ranks/ranks.h"

namespace hg {

// Whether a batch has sizes alone: its passes are counted, not computed.
bool counted_only(const Batch& batch);

// A sequence's length, where the patches of `keep` are kept.
std::int64_t tokens_of(const nn::Vit& model, const Tensor& keep);

// Lanes and groups of a batch; a pure function of sizes, never of threads or ranks. On a GPU a lane
// is one group, and a batch is one lane unless run.lanes says otherwise; in a dry run it is one
// group.
struct GroupPlan {
  std::int64_t batch = 0, groups = 0;  // images, and the groups they are dealt out to evenly
  std::int64_t lanes = 1;              // ... and these the groups; none is empty
  Ranks* ranks = nullptr;              // that share it; none: this one has all of it
  Device device = Device::cpu;         // which works on it

  std::int64_t begin(std::int64_t g) const { return g * batch / groups; }
  std::int64_t end(std::int64_t g) const { return begin(g + 1); }
  std::int64_t first_group(std::int64_t lane) const { return lane * groups / lanes; }
  // Of a rank: its lanes, groups and images, which are consecutive.
  Share lanes_of(int rank) const {
    return ranks ? share_of(lanes, rank, ranks->size()) : Share{0, lanes};
  }
  Share groups_of(int rank) const {
    return {first_group(lanes_of(rank).first), first_group(lanes_of(rank).end)};
  }
  int rank() const { return ranks ? ranks->rank() : 0; }
  Share own_lanes() const { return lanes_of(rank()); }
  Share own_groups() const { return groups_of(rank()); }
  Share own_images() const;
  // The group's part of the batch; what is undefined stays undefined.
  Tensor part_of(const Tensor& whole, std::int64_t g) const;
  Batch part_of(const Batch& whole, std::int64_t g) const;
};
// For sequences of `tokens` tokens; 0: as many as the batch's kept patches make.
GroupPlan plan_groups(const nn::Vit& model, const Batch& batch, std::int64_t tokens = 0);
// For passes without recording, of which nothing is kept or added up.
GroupPlan plan_evaluation(const nn::Vit& model, const Batch& batch);

// The lanes of a batch of so many images, each of `tokens` tokens; `asked`: run.lanes.
std::int64_t lanes_of_batch(std::int64_t images, std::int64_t tokens, std::int64_t parameters,
                            std::int64_t asked, Device device);

}  // namespace hg
