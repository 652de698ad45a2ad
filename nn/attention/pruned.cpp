// fiak_pruned: softmax attention (or rbf) on a fixed support of pairs. Keys that no query of a head
// attends to are not projected. A support that lacks pairs is saved as bits: buffer `mask`
// (mask_of).
#include "nn/attention/prune.h"
#include "nn/attention/variant.h"
#include "tensor/observer.h"
#include "tensor/ops/kept_projection.h"
#include "tensor/ops/sparse_attention.h"
#include "tensor/transfer.h"

namespace hg::nn {
namespace {

class PrunedAttention final : public Attention {
 public:
  PrunedAttention(const Builder& self, const AttentionOptions& options);
  static AttentionTraits traits(const AttentionOptions&) {
    return {.quadratic = true,
            .weights = true,
            .pruned = true,
            .some_heads = false,
            .some_queries = false};
  }

 private:
  Tensor mixed(CoreInput core, const Context& context) const override;
  Supports supports_of(const Tensor& ids) const;

  std::shared_ptr<const PairSupport> support_;
};

PrunedAttention::PrunedAttention(const Builder& self, const AttentionOptions& o)
    : Attention(self, o), support_(o.support ? o.support : PairSupport::whole(o.heads, o.tokens)) {
  require(support_->heads() == o.heads && support_->tokens() == o.tokens, "attention",
          "a support of {} heads of {} tokens for {} heads of {} tokens", support_->heads(),
          support_->tokens(), o.heads, o.tokens);
  if (o.support) self.add_buffer("mask", mask_of(*support_));
}

Supports PrunedAttention::supports_of(const Tensor& ids) const {
  if (!ids.defined()) return {support_};
  Supports all;
  const Tensor known = on_host(ids);
  const std::int64_t n = ids.dim(-1);
  for (std::int64_t i = 0; i < ids.numel(); i += n)
    all.push_back(support_->among(known.data<std::int64_t>() + i, n));
  return all;
}

Tensor PrunedAttention::mixed(CoreInput core, const Context& context) const {
  const Tensor& x = core.x;
  SparseAttentionOptions o;
  o.supports = supports_of(core.ids);
  o.rbf = options_.rbf_score;
  Tensors qkv;
  {
    const Scope scope(inward_->name(), Scope::kLeaf);
    qkv = kept_projection(o.supports, x, inward_->weight(), inward_->bias());
  }
  if (context.random && options_.weight_dropout > 0) {
    o.dropout = options_.weight_dropout;
    o.key = context.random->key();
    o.first = context.random->take(static_cast<std::uint64_t>(o.supports.pairs(x.dim(0))));
  }
  return sparse_attention(o, qkv[0], qkv[1], qkv[2]);
}

}  // namespace

AttentionVariant fiak_pruned_attention() { return variant<PrunedAttention>(); }

}  // namespace hg::nn
