// Softmax attention within groups: scores and sums only between tokens that share a group
// (tensor/ops/attention/token_groups.h), by products of whole groups. A row's softmax is over the
// keys of all rounds; what the rounds give is joined as their parts of one softmax.
// Inputs: qkv [B, N, 3 H D], or apart q [B, N, H D], k and v [B, M, H D]. Outputs: o [B, N, H D];
// lse [B, H, N] for the gradient.
#pragma once

#include "tensor/ops/attention/token_groups.h"
#include "tensor/run.h"

namespace hg {

struct GroupAttentionOptions {
  GroupsOfImages groups;
  std::int64_t heads = 1;
  bool apart = false;  // q, k and v come apart
  double dropout = 0;  // of weights, with draws of stream `key` from `first` on
  std::uint64_t key = 0, first = 0;

  int inputs() const { return apart ? 3 : 1; }
};

namespace ops {

// parts of the cost, as backward: qk, softmax, av
class GroupAttention final : public OpOf<GroupAttention> {
 public:
  explicit GroupAttention(GroupAttentionOptions options) : options(std::move(options)) {}
  HG_DECLARE_DIFFERENTIABLE_OP("group_attention");
  Indices auxiliary_outputs() const override { return {1}; }

  const GroupAttentionOptions options;
};

// inputs do, o, lse, then the forward's inputs; outputs their gradients
class GroupAttentionBackward final : public GradientOp<GroupAttentionBackward> {
 public:
  explicit GroupAttentionBackward(GroupAttentionOptions options) : options(std::move(options)) {}
  HG_DECLARE_OP("group_attention_backward");

  const GroupAttentionOptions options;
};

}  // namespace ops

inline Tensor group_attention(const GroupAttentionOptions& options, In in) {
  return run(ops::GroupAttention(options), in)[0];
}

}  // namespace hg
