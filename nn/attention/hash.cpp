// hash: queries that are also keys, once scaled to length 1. Random rotations put each into a
// bucket, in several rounds; a query attends to the keys that share its bucket in any round, and to
// itself only if it is alone. The class token has no bucket: it attends to all others, and all to
// it.
#include "nn/attention/grouped.h"
#include "nn/attention/positions.h"
#include "nn/attention/variant.h"
#include "tensor/ops/l2_normalize.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/permute.h"
#include "tensor/transfer.h"

namespace hg::nn {
namespace {

class HashAttention final : public Attention {
 public:
  HashAttention(const Builder& self, const AttentionOptions& o);
  static AttentionTraits traits(const AttentionOptions&) { return {.weights = true}; }

 private:
  Tensor mixed(CoreInput core, const Context& context) const override;
  Tensor turned(const Tensor& q, std::int64_t heads) const;
  GroupsOfImages groups_of(const CoreInput& core, const Tensor& q) const;

  Tensor rotations_;  // [rounds, D, buckets / 2]
};

HashAttention::HashAttention(const Builder& self, const AttentionOptions& o)
    : Attention(self, o, {"qv", 2}) {
  require(o.rounds > 0 && o.buckets > 0 && o.buckets % 2 == 0, "attention",
          "{} rounds of {} buckets; expected an even number of buckets", o.rounds, o.buckets);
  rotations_ =
      self.make_buffer("rotations", {o.rounds, o.dim_head, o.buckets / 2}, Init::normal(1));
}

// q [B, N, H D] -> [B, N, H, rounds * buckets / 2], on the host
Tensor HashAttention::turned(const Tensor& q, std::int64_t heads) const {
  const Tensor columns = reshape(permute(rotations_, {1, 0, 2}), {options_.dim_head, -1});
  return on_host(matmul(with_heads(q.detach(), heads), columns));
}

// The bucket is the largest of [x, -x], the first of equal ones.
template <class T>
std::int32_t bucket_of(const T* x, std::int64_t half) {
  std::int64_t best = 0;
  for (std::int64_t c = 1; c < 2 * half; ++c) {
    const T value = c < half ? x[c] : -x[c - half], most = best < half ? x[best] : -x[best - half];
    if (value > most) best = c;
  }
  return static_cast<std::int32_t>(best);
}

// Each image's own. Where costs are counted, without contents, buckets are of equal size.
GroupsOfImages HashAttention::groups_of(const CoreInput& core, const Tensor& q) const {
  const std::int64_t batch = q.dim(0), n = q.dim(1), heads = core.heads.count(),
                     rounds = options_.rounds, half = options_.buckets / 2;
  const Tensor x = turned(q, heads), ids = core.ids.defined() ? on_host(core.ids) : Tensor();
  const Tensor asking = core.apart() ? on_host(core.asking) : Tensor();
  const std::int64_t queries = core.queries();
  const auto label = [&](std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t i) {
    const std::int64_t at = ids.defined() && ids.rank() == 2 ? b * n + i : i;
    if ((ids.defined() ? ids.data<std::int64_t>()[at] : i) == 0) return Grouping::kEverywhere;
    if (!x.storage()) return static_cast<std::int32_t>((i + r * (i / (2 * half))) % (2 * half));
    return dispatch_float(x.dtype(), "hash", [&]<class T>() {
      return bucket_of(x.data<T>() + (((b * n + i) * heads + h) * rounds + r) * half, half);
    });
  };
  GroupsOfImages groups;
  for (std::int64_t b = 0; b < batch; ++b) {
    CachedVector<std::int32_t> place;
    for (std::int64_t i = 0; i < queries; ++i)
      place.push_back(static_cast<std::int32_t>(
          core.apart() ? asking.data<std::int64_t>()[b * queries + i] : i));
    CachedVector<TokenGroups::Labels> labels(static_cast<std::size_t>(heads));
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t r = 0; r < rounds; ++r) {
        CachedVector<std::int32_t>& keys = labels[h].keys;
        for (std::int64_t i = 0; i < n; ++i) keys.push_back(label(b, h, r, i));
        for (const std::int32_t i : place) labels[h].queries.push_back(keys[r * n + i]);
      }
    groups.push_back(std::allocate_shared<const TokenGroups>(CachedAllocator<TokenGroups>{}, rounds,
                                                             place, false, labels));
  }
  return groups;
}

Tensor HashAttention::mixed(CoreInput core, const Context& context) const {
  const std::int64_t heads = core.heads.count();
  const Tensor both = onto_heads(*inward_, core.x, core.heads, 2);
  const std::int64_t width = both.dim(2) / 2;
  const Tensors parts = split(both, {width, width}, 2);
  const Tensor keys = without_heads(l2_normalize(with_heads(parts[0], heads), 1e-6));
  const Tensor queries = core.apart() ? gather_rows(parts[0], core.asking) : parts[0];
  return attend_in_groups(groups_of(core, parts[0]), Tensors{queries, keys, parts[1]}, heads,
                          options_.weight_dropout, context);
}

}  // namespace

AttentionVariant hash_attention() { return variant<HashAttention>(); }

}  // namespace hg::nn
