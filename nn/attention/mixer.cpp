// mixer: for each feature, an MLP over tokens (MLP-Mixer): y = W2 gelu(W1 u + b1) + b2. Its weights
// belong to positions: with tokens left out, their columns of W1 and rows of W2 and b2 are.
#include "nn/attention/positions.h"
#include "nn/attention/variant.h"
#include "tensor/observer.h"
#include "tensor/ops/broadcast.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/permute.h"
#include "tensor/ops/unary.h"
#include "tensor/transfer.h"

namespace hg::nn {
namespace {

std::int64_t hidden_of(const AttentionOptions& o) {
  return o.tokens_hidden > 0 ? o.tokens_hidden : std::max<std::int64_t>(1, o.tokens / 2);
}

// [N] or [B, N] as [B, N]
Tensor of_each_image(const Tensor& ids, std::int64_t batch) {
  if (ids.rank() == 2) return ids;
  const Tensor here = on_host(ids), all = Tensor::empty({batch, ids.dim(0)}, DType::i64);
  for (std::int64_t b = 0; b < batch; ++b)
    std::copy_n(here.data<std::int64_t>(), ids.numel(), all.data<std::int64_t>() + b * ids.numel());
  return to_device(all, ids.device());
}

class TokenMixer final : public Attention {
 public:
  TokenMixer(const Builder& self, const AttentionOptions& o)
      : Attention(NoProjections{}, o),
        fc1_(self.child("tokens"), "fc1", o.tokens, hidden_of(o)),
        fc2_(self.child("tokens"), "fc2", hidden_of(o), o.tokens) {}
  static AttentionTraits traits(const AttentionOptions&) {
    return {.some_heads = false, .some_queries = false};
  }

 private:
  Tensor mixed(CoreInput core, const Context&) const override {
    const Scope scope("tokens");
    if (core.ids.defined()) return of_some(core.x, of_each_image(core.ids, core.x.dim(0)));
    return permute(fc2_(fc1_.with_gelu(permute(core.x, {0, 2, 1}))), {0, 2, 1});
  }

  // x [B, N, E], ids [B, N]
  Tensor of_some(const Tensor& x, const Tensor& ids) const {
    Tensor hidden;  // [B, E, T]
    {
      const Scope scope(fc1_.name(), Scope::kLeaf);
      const Tensor inward = gather_rows(contiguous(transpose(fc1_.weight())), ids);  // [B, N, T]
      hidden = gelu(add_leading(matmul(transpose(x), inward), fc1_.bias()));
    }
    const Scope scope(fc2_.name(), Scope::kLeaf);
    const Tensor outward = gather_rows(fc2_.weight(), ids);  // [B, N, T]
    const Tensor bias = reshape(gather_rows(reshape(fc2_.bias(), {-1, 1}), ids), ids.shape());
    const Tensor y = matmul(outward, transpose(hidden));  // [B, N, E]
    return permute(add_leading(permute(y, {2, 0, 1}), bias), {1, 2, 0});
  }

  Linear fc1_, fc2_;
};

}  // namespace

AttentionVariant mixer_attention() { return variant<TokenMixer>(); }

}  // namespace hg::nn
