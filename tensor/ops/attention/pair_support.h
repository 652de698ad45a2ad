// Which pairs of query and key attend, head by head: lists by query and, for gradients, the same by
// key. A head's keys that no query attends to are no part of it; the others are its kept keys,
// counted from 0. Made once, then shared by every call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "tensor/allocator.h"
#include "tensor/op.h"

namespace hg {

class PairSupport {
 public:
  // Rows of this many keys (or queries) are worked on at a time, so that they stay in L1 cache.
  static constexpr std::int64_t kTile = 96;
  static constexpr std::int64_t kMostTokens = 65536;

  using Row = CachedVector<std::uint16_t>;
  // Fills in the keys of one head and query, ascending.
  using KeysOf = std::function<void(std::int64_t head, std::int64_t query, Row& keys)>;

  PairSupport(std::int64_t heads, std::int64_t tokens, const KeysOf& keys_of);
  static std::shared_ptr<const PairSupport> whole(std::int64_t heads, std::int64_t tokens);

  std::int64_t heads() const { return heads_; }
  std::int64_t tokens() const { return tokens_; }
  bool has(std::int64_t head, std::int64_t query, std::int64_t key) const;

  std::int64_t pairs() const { return pair_begin_.back(); }
  std::int64_t pairs(std::int64_t head) const { return first_pair(head + 1) - first_pair(head); }
  std::int64_t first_pair(std::int64_t head) const { return pair_begin_[head]; }
  std::int64_t kept() const { return key_begin_.back(); }  // keys of all heads
  std::int64_t kept(std::int64_t head) const { return first_key(head + 1) - first_key(head); }
  std::int64_t first_key(std::int64_t head) const { return key_begin_[head]; }
  const std::uint16_t* kept_tokens(std::int64_t head) const {
    return kept_tokens_.data() + first_key(head);
  }
  bool keeps_all(std::int64_t head) const { return kept(head) == tokens_; }

  // One direction of a head's pairs: row r of tile t has others[begin(r, t) .. begin(r, t + 1)).
  struct Lists {
    const std::uint32_t* begins;
    const std::uint16_t* others;
    const std::uint32_t* places;  // of by_key(): the pair's place in by_query(); else null
    std::int64_t tiles;
    std::int64_t begin(std::int64_t row, std::int64_t tile) const {
      return begins[row * tiles + tile];
    }
  };
  Lists by_query(std::int64_t head) const;  // others: kept keys
  Lists by_key(std::int64_t head) const;    // rows: kept keys; others: queries

  // All of it as bytes on the CUDA device, where they are copied at the first call: a PackedHead of
  // each head, then the lists at the offsets that it has, in bytes.
  struct PackedHead {
    std::int64_t first_key, first_pair, kept, tiles;
    std::int64_t query_begins, keys, key_begins, queries, places, kept_tokens;
  };
  const Tensor& on_device() const;

  // The same pairs among the tokens `ids` [n] alone, which then count from 0.
  std::shared_ptr<const PairSupport> among(const std::int64_t* ids, std::int64_t n) const;

 private:
  void add_head(std::int64_t head, const KeysOf& keys_of);
  Tensor packed() const;

  std::int64_t heads_, tokens_, tiles_;
  CachedVector<std::int64_t> pair_begin_{0}, key_begin_{0}, query_lists_, key_lists_;
  CachedVector<std::uint16_t> kept_tokens_, keys_, queries_;
  CachedVector<std::uint32_t> query_begin_, key_list_begin_, places_;
  mutable std::once_flag copied_;
  mutable Tensor on_device_;
};

// One support for all images of a call, or one each.
struct Supports : CachedVector<std::shared_ptr<const PairSupport>> {
  using vector::vector;

  const PairSupport& of_image(std::int64_t b) const { return *(*this)[size() == 1 ? 0 : b]; }
  std::int64_t heads() const { return front()->heads(); }
  // Sums over so many images.
  std::int64_t pairs(std::int64_t images) const { return sum(images, &PairSupport::pairs); }
  std::int64_t kept(std::int64_t images) const { return sum(images, &PairSupport::kept); }
  void check(const Op& op, const Tensor& x) const;  // throws unless they fit x [B, N, ..]

 private:
  std::int64_t sum(std::int64_t images, std::int64_t (PairSupport::*of)() const) const;
};

}  // namespace hg
