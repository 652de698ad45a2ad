// How the CPU cuts attention within groups into blocks: the queries of a group against its keys.
#pragma once

#include "tensor/cpu/vector_math.h"
#include "tensor/ops/attention/score_blocks.h"
#include "tensor/ops/attention/token_groups.h"

namespace hg::cpu {

// In the first round the keys include those outside of groups.
struct GroupBlock {
  Grouping::List queries;
  CachedVector<std::int32_t> keys, groups;  // groups: of the keys in each round before, in turn

  // Queries worked on at a time.
  std::int64_t rows() const {
    return std::min<std::int64_t>(queries.count,
                                  block_rows(static_cast<std::int64_t>(keys.size())));
  }
};

// body(round, block) for every group that has queries and keys, then for the queries that see all.
void for_blocks(const Grouping& g, const auto& body) {
  GroupBlock block;
  for (int r = 0; r < g.rounds; ++r)
    for (int group = 0; group < g.groups; ++group) {
      block.queries = g.queries_of(r, group);
      const Grouping::List keys = g.keys_of(r, group);
      block.keys.assign(g.free_key, g.free_key + (r == 0 ? g.free_keys : 0));
      block.keys.insert(block.keys.end(), keys.tokens, keys.tokens + keys.count);
      block.groups.clear();
      for (int before = 0; before < r; ++before)
        for (const std::int32_t j : block.keys) block.groups.push_back(g.group_of_key(before, j));
      if (block.queries.count > 0 && !block.keys.empty()) body(r, block);
    }
  if (g.free_queries == 0) return;
  block.queries = {g.free_query, g.free_queries};
  block.keys.resize(static_cast<std::size_t>(g.keys));
  for (int j = 0; j < g.keys; ++j) block.keys[static_cast<std::size_t>(j)] = j;
  body(0, block);
}

// The most that for_blocks gives: rows at a time, keys, and scores of these rows with padding.
template <class T>
struct LargestBlocks {
  std::int64_t rows = 1, keys = 1, scores = 1;
  explicit LargestBlocks(const Grouping& g) {
    for_blocks(g, [this](int, const GroupBlock& block) {
      const auto count = static_cast<std::int64_t>(block.keys.size());
      rows = std::max(rows, block.rows());
      keys = std::max(keys, count);
      scores = std::max(scores, block.rows() * padded_size<T>(count));
    });
  }
};

}  // namespace hg::cpu
