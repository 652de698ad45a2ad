// For variants whose tokens attend within groups: from each token's group to the core. The class
// token (position 0) is in no group: it attends to all, and all to it.
#pragma once

#include <mutex>

#include "nn/attention/attention.h"
#include "tensor/ops/group_attention.h"

namespace hg::nn {

// Groups by place on the grid. A sequence of n patches is a square, row by row, of which the last
// rows may be missing.
class PlacedGroups {
 public:
  // The group of a patch (from 0 on) for a head, by its number among all.
  using GroupOf =
      std::function<std::int32_t(std::int64_t head, std::int64_t row, std::int64_t column)>;
  // by_head: the heads differ.
  PlacedGroups(std::int64_t tokens, bool by_head, GroupOf group_of);

  // Of these tokens and queries, for the heads that work.
  GroupsOfImages of(const CoreInput& core) const;
  std::int64_t columns() const { return columns_; }

 private:
  std::shared_ptr<const TokenGroups> made(const HeadSet& heads, std::span<const std::int64_t> keys,
                                          std::span<const std::int64_t> queries,
                                          std::span<const std::int64_t> asking) const;
  std::int32_t label(std::int64_t head, std::int64_t position) const;

  std::int64_t tokens_, columns_;
  bool by_head_;
  GroupOf group_of_;
  mutable std::once_flag made_;
  mutable std::shared_ptr<const TokenGroups> whole_;  // of the whole sequence and all heads
};

// Of n patches on a square grid.
std::int64_t grid_columns(std::int64_t patches);

// The core: attention within these groups. qkv as one, or q, k and v apart.
Tensor attend_in_groups(GroupsOfImages groups, In qkv, std::int64_t heads, double dropout,
                        const Context& context);

// window and axial: groups by place.
class PlacedAttention : public Attention {
 public:
  // by_head: whether group_of differs by head
  PlacedAttention(const Builder& self, const AttentionOptions& options, bool by_head,
                  const PlacedGroups::GroupOf& group_of)
      : Attention(self, options), groups_(options.tokens, by_head, group_of) {}
  static AttentionTraits traits(const AttentionOptions&) { return {.weights = true}; }

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;

  PlacedGroups groups_;
};

}  // namespace hg::nn
