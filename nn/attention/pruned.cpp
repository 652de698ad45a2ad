#include "nn/attention/pruned.h"

#include "tensor/observer.h"
#include "tensor/ops/kept_projection.h"
#include "tensor/ops/sparse_attention.h"
#include "tensor/transfer.h"

namespace hg::nn {
namespace {

constexpr std::int64_t kBits = 64;

std::int64_t words_of(std::int64_t tokens) { return (tokens + kBits - 1) / kBits; }

std::uint64_t bit(std::int64_t key) { return std::uint64_t{1} << (key % kBits); }

}  // namespace

PrunedAttention::PrunedAttention(const Builder& parent, const AttentionOptions& o)
    : Attention(parent, o),
      support_(o.support ? o.support : PairSupport::whole(o.heads, o.tokens)) {
  require(support_->heads() == o.heads && support_->tokens() == o.tokens, "attention",
          "a support of {} heads of {} tokens for {} heads of {} tokens", support_->heads(),
          support_->tokens(), o.heads, o.tokens);
  Builder self = parent.child("attn");
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
    const Scope scope(qkv_.name(), Scope::kLeaf);
    qkv = kept_projection(o.supports, x, qkv_.weight(), qkv_.bias());
  }
  if (context.random && options_.weight_dropout > 0) {
    o.dropout = options_.weight_dropout;
    o.key = context.random->key();
    o.first = context.random->take(static_cast<std::uint64_t>(o.pairs(x.dim(0))));
  }
  return sparse_attention(o, qkv[0], qkv[1], qkv[2]);
}

Tensor mask_of(const PairSupport& support) {
  const std::int64_t n = support.tokens(), words = words_of(n);
  const Tensor mask = Tensor::zeros({support.heads(), n, words}, DType::i64);
  for (std::int64_t h = 0; h < support.heads(); ++h) {
    const PairSupport::Lists lists = support.by_query(h);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t p = lists.begin(i, 0); p < lists.begin(i + 1, 0); ++p) {
        const std::int64_t key = support.kept_tokens(h)[lists.others[p]];
        std::int64_t& word = mask.data<std::int64_t>()[(h * n + i) * words + key / kBits];
        word = static_cast<std::int64_t>(static_cast<std::uint64_t>(word) | bit(key));
      }
  }
  return mask;
}

std::shared_ptr<const PairSupport> support_of(const Tensor& mask) {
  require(mask.rank() == 3 && mask.dtype() == DType::i64 && mask.dim(0) > 0 && mask.dim(1) > 0 &&
              mask.dim(1) <= PairSupport::kMostTokens && mask.dim(2) == words_of(mask.dim(1)),
          "mask", "expected i64[H,N,N/64], got {}", mask);
  const std::int64_t n = mask.dim(1), words = mask.dim(2);
  const std::int64_t* const bits = mask.data<std::int64_t>();
  const auto has = [&](std::int64_t row, std::int64_t key) {
    return (static_cast<std::uint64_t>(bits[row * words + key / kBits]) & bit(key)) != 0;
  };
  for (std::int64_t row = 0; row < mask.dim(0) * n; ++row)
    for (std::int64_t key = n; key < words * kBits; ++key)
      require(!has(row, key), "mask", "a bit of key {} in {} of {} keys", key, mask, n);
  return std::make_shared<const PairSupport>(
      mask.dim(0), n, [&](std::int64_t h, std::int64_t i, PairSupport::Row& keys) {
        for (std::int64_t j = 0; j < n; ++j)
          if (has(h * n + i, j)) keys.push_back(static_cast<std::uint16_t>(j));
      });
}

}  // namespace hg::nn
