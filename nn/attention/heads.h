// Which heads of a layer work, and their share of tensors that hold all heads side by side.
#pragma once

#include <algorithm>
#include <numeric>

#include "nn/layers/linear.h"
#include "tensor/ops/optimizer.h"

namespace hg::nn {

// The `count` places of the largest scores, the first of equal ones, in increasing order.
template <class T>
CachedVector<std::int64_t> places_of_largest(std::span<const T> scores, std::int64_t count) {
  CachedVector<std::int64_t> places(scores.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(), [&](std::int64_t a, std::int64_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  places.resize(static_cast<std::size_t>(count));
  std::sort(places.begin(), places.end());
  return places;
}

class HeadSet {
 public:
  explicit HeadSet(std::int64_t heads) : heads_(heads), count_(heads) {}  // all of them
  // The `count` heads of the largest scores, the first of equal ones.
  static HeadSet largest(std::span<const double> scores, std::int64_t count);

  std::int64_t count() const { return count_; }
  bool whole() const { return count_ == heads_; }
  // Of the i-th head that works, its number among all.
  std::int64_t number(std::int64_t i) const {
    return whole() ? i : active_[static_cast<std::size_t>(i)];
  }
  bool operator==(const HeadSet&) const = default;

  // These heads' share of a tensor whose axis holds all heads `parts` times (3 in qkv). A copy,
  // unless they are all. Undefined stays undefined.
  Tensor of(const Tensor& t, int axis = 0, std::int64_t parts = 1) const;
  // The elements of that share.
  UpdateRanges ranges(const Tensor& t, int axis = 0, std::int64_t parts = 1) const;

 private:
  std::int64_t heads_, count_;
  CachedVector<std::int64_t> active_{};  // ascending; empty: all
};

// A linear layer whose outputs are all heads, `parts` times, computed for these heads alone; and
// one whose inputs are all heads, given these alone.
Tensor onto_heads(const Linear& layer, const Tensor& x, const HeadSet& heads,
                  std::int64_t parts = 1);
Tensor from_heads(const Linear& layer, const Tensor& x, const HeadSet& heads);

}  // namespace hg::nn
