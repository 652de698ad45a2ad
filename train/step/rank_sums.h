// Gradients of all ranks' lanes, added by the tree of lanes. Each rank adds those of its parameters
// (train/step/owners.h). Where a rank's lanes are one node of the tree, it sends, with the values
// after their update, about as much as around a ring: 2 (R - 1) / R of a set of gradients.
#pragma once

#include "nn/layers/parameter.h"
#include "train/ranks/packed.h"
#include "train/ranks/ranks.h"
#include "train/step/lane_sums.h"

namespace hg {

// A node that a rank holds, and of which parameters it has gradients.
struct HeldNode : LaneNode {
  std::vector<char> has;  // [trained parameter]
};
using HeldNodes = std::vector<HeldNode>;

HeldNodes nodes_held(const LaneSums& sums, const std::vector<nn::Parameter>& trained);
void pack(const HeldNodes& nodes, Packer& to);
HeldNodes unpack_nodes(Unpacker& from);

// The gradient of this parameter that begins there among these floats.
Tensor gradient_in(const Tensor& floats, std::int64_t begin, const nn::Parameter& of);

// Gradients of the whole batch: [trained parameter], undefined where no lane has one or another
// rank owns it. `own` are this rank's sums, `held` the nodes of every rank.
Tensors sum_over_ranks(Ranks& ranks, const LaneSums& own, const std::vector<HeldNodes>& held,
                       std::int64_t lanes, const std::vector<nn::Parameter>& trained);

}  // namespace hg
