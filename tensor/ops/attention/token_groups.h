// Which tokens attend within groups: in each round a token is in one group, and a query attends to
// the keys that share its group in any round. Tokens outside of groups attend to all, and all to
// them. Lists of each group's tokens, for kernels that work group by group.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "tensor/allocator.h"
#include "tensor/host_device.h"
#include "tensor/op.h"

namespace hg {

// The groups of one head as kernels read them, on the host or a device. Lists are of round after
// round; a token's group is kEverywhere if it is outside of groups.
struct Grouping {
  static constexpr std::int32_t kEverywhere = -1;

  // How many of each: groups of the round that has most, queries and keys outside of groups.
  int rounds, queries, keys, groups, free_queries, free_keys;
  const std::int32_t *query_group, *key_group;  // [rounds, queries], [rounds, keys]
  const std::int32_t *query_begin, *key_begin;  // [rounds, groups + 1]: where lists begin
  const std::int32_t *query_list, *key_list;    // [rounds, queries], [rounds, keys]
  const std::int32_t *free_query, *free_key;    // those outside of groups
  const std::int32_t* left_out;                 // [queries]: the key that is left out, or -1

  struct List {
    const std::int32_t* tokens;
    int count;
  };
  HG_HOST_DEVICE List queries_of(int round, int group) const {
    const std::int32_t* const begin = query_begin + round * (groups + 1) + group;
    return {query_list + round * queries + begin[0], begin[1] - begin[0]};
  }
  HG_HOST_DEVICE List keys_of(int round, int group) const {
    const std::int32_t* const begin = key_begin + round * (groups + 1) + group;
    return {key_list + round * keys + begin[0], begin[1] - begin[0]};
  }
  HG_HOST_DEVICE std::int32_t group_of_query(int round, int i) const {
    return query_group[round * queries + i];
  }
  HG_HOST_DEVICE std::int32_t group_of_key(int round, int j) const {
    return key_group[round * keys + j];
  }
  // Whether pair (i, j), met in this round, has no weight: a key left out, or met before.
  HG_HOST_DEVICE bool masked(int i, int j, int round) const {
    if (left_out[i] == j) return true;
    for (int before = 0; before < round; ++before)
      if (group_of_query(before, i) == group_of_key(before, j)) return true;
    return false;
  }
};

class TokenGroups {
 public:
  // The group of each token in each round, [rounds, tokens]: from 0 on, or kEverywhere, in all
  // rounds alike.
  struct Labels {
    CachedVector<std::int32_t> queries, keys;
  };
  // labels: of all heads, or of each. place: of each query, the key of the same token, or -1.
  // Without `self`, a token attends to itself only if there is no other key. Throws if a query has
  // no key.
  TokenGroups(std::int64_t rounds, const CachedVector<std::int32_t>& place, bool self,
              const CachedVector<Labels>& labels);

  std::int64_t queries() const { return data_[kQueries]; }
  std::int64_t keys() const { return data_[kKeys]; }
  std::int64_t rounds() const { return data_[kRounds]; }
  std::int64_t groupings() const { return groupings_; }  // 1, or as many as heads
  Grouping of_head(std::int64_t head) const { return view(data_.data(), head); }
  // Pairs that are computed for this head: of all rounds, masked ones too.
  std::int64_t pairs(std::int64_t head) const { return pairs_[groupings_ == 1 ? 0 : head]; }
  std::uint64_t bytes() const { return data_.size() * sizeof(std::int32_t); }

  // The same on the CUDA device, where it is copied at the first call.
  const Tensor& on_device() const;
  // The groups of a head in data like ours, there or here.
  HG_HOST_DEVICE static Grouping view(const std::int32_t* data, std::int64_t head) {
    Grouping g{};
    g.rounds = data[kRounds], g.queries = data[kQueries], g.keys = data[kKeys];
    g.groups = data[kGroups];
    const std::int32_t* at = data + kHeader + (data[kGroupings] == 1 ? 0 : head) * data[kStride];
    const auto take = [&at](std::int64_t count) {
      const std::int32_t* const first = at;
      at += count;
      return first;
    };
    const std::int32_t* const counts = take(2);
    g.free_queries = counts[0], g.free_keys = counts[1];
    const std::int64_t rounds = g.rounds, begins = rounds * (g.groups + 1);
    g.query_group = take(rounds * g.queries), g.key_group = take(rounds * g.keys);
    g.query_begin = take(begins), g.key_begin = take(begins);
    g.query_list = take(rounds * g.queries), g.key_list = take(rounds * g.keys);
    g.free_query = take(g.queries), g.free_key = take(g.keys);
    g.left_out = take(g.queries);
    return g;
  }

 private:
  enum Field { kRounds, kQueries, kKeys, kGroups, kGroupings, kStride, kHeader };
  void add(const Labels& labels, const CachedVector<std::int32_t>& place, bool self);

  std::int64_t groupings_;
  CachedVector<std::int32_t> data_;  // the header, then each grouping as view() takes it
  CachedVector<std::int64_t> pairs_;
  mutable std::once_flag copied_;
  mutable Tensor on_device_;
};

// Groups for all images of a call, or of each.
struct GroupsOfImages : CachedVector<std::shared_ptr<const TokenGroups>> {
  using vector::vector;

  const TokenGroups& of_image(std::int64_t b) const { return *(*this)[size() == 1 ? 0 : b]; }
  std::int64_t pairs(std::int64_t images, std::int64_t heads) const;
  std::uint64_t bytes() const;
  // Throws unless they fit q [B, N, ..], k [B, M, ..] and so many heads.
  void check(const Op& op, const Tensor& q, const Tensor& k, std::int64_t heads) const;
};

}  // namespace hg
