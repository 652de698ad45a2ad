#include "nn/attention/heads.h"

#include <algorithm>
#include <numeric>

#include "tensor/observer.h"
#include "tensor/ops/gather.h"
#include "tensor/ops/linear.h"
#include "tensor/ops/view.h"
#include "tensor/transfer.h"

namespace hg::nn {
namespace {

// How often all heads stand one after the other in t.
std::int64_t repeats(const Tensor& t, int axis, std::int64_t parts) {
  return t.shape().product(0, axis) * parts;
}

}  // namespace

HeadSet HeadSet::largest(std::span<const double> scores, std::int64_t count) {
  HeadSet set(static_cast<std::int64_t>(scores.size()));
  require(count >= 1 && count <= set.heads_, "heads", "{} of {} heads", count, set.heads_);
  if (count == set.heads_) return set;
  set.count_ = count;
  set.active_.resize(scores.size());
  std::iota(set.active_.begin(), set.active_.end(), 0);
  std::stable_sort(set.active_.begin(), set.active_.end(), [&](std::int64_t a, std::int64_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  set.active_.resize(static_cast<std::size_t>(count));
  std::sort(set.active_.begin(), set.active_.end());
  return set;
}

Tensor HeadSet::of(const Tensor& t, int axis, std::int64_t parts) const {
  if (!t.defined() || whole()) return t;
  const std::int64_t rows = repeats(t, axis, parts);
  const Tensor ids = Tensor::empty({rows, count_}, DType::i64);
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy(active_.begin(), active_.end(), ids.data<std::int64_t>() + r * count_);
  Shape shape = t.shape();
  shape[axis] = shape[axis] / heads_ * count_;
  return reshape(gather_rows(reshape(t, {rows, heads_, -1}), to_device(ids, t.device())), shape);
}

UpdateRanges HeadSet::ranges(const Tensor& t, int axis, std::int64_t parts) const {
  const std::int64_t head = t.numel() / (repeats(t, axis, parts) * heads_);
  UpdateRanges all{heads_ * head, {}};
  for (const std::int64_t h : active_) {
    if (!all.ranges.empty() && all.ranges.back().second == h * head)
      all.ranges.back().second += head;
    else
      all.ranges.emplace_back(h * head, (h + 1) * head);
  }
  return all;
}

Tensor onto_heads(const Linear& layer, const Tensor& x, const HeadSet& heads, std::int64_t parts) {
  if (heads.whole()) return layer(x);
  const Scope scope(layer.name(), Scope::kLeaf);
  const Tensor weight = heads.of(layer.weight(), 0, parts);
  return layer.bias().defined() ? linear(x, weight, heads.of(layer.bias(), 0, parts))
                                : linear(x, weight);
}

Tensor from_heads(const Linear& layer, const Tensor& x, const HeadSet& heads) {
  if (heads.whole()) return layer(x);
  const Scope scope(layer.name(), Scope::kLeaf);
  return linear(x, heads.of(layer.weight(), 1), layer.bias());
}

}  // namespace hg::nn
