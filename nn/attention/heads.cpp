#include "nn/attention/heads.h"

#include "tensor/observer.h"
#include "tensor/ops/gather.h"
#include "tensor/ops/view.h"
#include "tensor/transfer.h"

namespace hg::nn {
namespace {

// How many runs of all heads t holds one after the other.
std::int64_t repeats(const Tensor& t, int axis, std::int64_t parts) {
  return t.shape().product(0, axis) * parts;
}

}  // namespace

HeadSet HeadSet::largest(std::span<const double> scores, std::int64_t count) {
  HeadSet set(static_cast<std::int64_t>(scores.size()));
  require(count >= 1 && count <= set.heads_, "heads", "{} of {} heads", count, set.heads_);
  if (count == set.heads_) return set;
  set.count_ = count;
  set.active_ = places_of_largest(scores, count);
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
  return affine(x, weight, heads.of(layer.bias(), 0, parts));
}

Tensor from_heads(const Linear& layer, const Tensor& x, const HeadSet& heads) {
  if (heads.whole()) return layer(x);
  const Scope scope(layer.name(), Scope::kLeaf);
  return affine(x, heads.of(layer.weight(), 1), layer.bias());
}

}  // namespace hg::nn
