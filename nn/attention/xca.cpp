// xca: attention between channels. A = softmax(t_h Q^T K) over columns of length 1, O = V A^T.
#include "nn/attention/variant.h"
#include "tensor/ops/l2_normalize.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/permute.h"
#include "tensor/ops/scale_axes.h"
#include "tensor/ops/softmax.h"
#include "tensor/ops/view.h"

namespace hg::nn {
namespace {

class XcaAttention final : public Attention {
 public:
  XcaAttention(const Builder& self, const AttentionOptions& o) : Attention(self, o) {
    temperature_ = by_head(self.make("temperature", {o.heads}, Init::constant(1), false));
  }
  static AttentionTraits traits(const AttentionOptions&) {
    return {.weights = true, .some_queries = false};
  }

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override {
    const std::int64_t batch = core.x.dim(0), n = core.x.dim(1), heads = core.heads.count();
    // [3, B, H, D, N]: channels as rows
    const Tensor channels =
        permute(reshape(core.qkv[0], {batch, n, 3, heads, options_.dim_head}), {2, 0, 3, 4, 1});
    const auto part = [&](std::int64_t which) {
      return reshape(slice(channels, which, which + 1), {batch, heads, options_.dim_head, n});
    };
    const Tensor q = l2_normalize(part(0)), k = l2_normalize(part(1));
    const Tensor logits =
        scale_axes(matmul(q, transpose(k)), core.heads.of(temperature_), 1);  // [B, H, D, D]
    const Tensor weights = context.dropout(softmax(logits), options_.weight_dropout);
    return reshape(permute(matmul(weights, part(2)), {0, 3, 1, 2}), {batch, n, -1});
  }

  Tensor temperature_;  // [H]
};

}  // namespace

AttentionVariant xca_attention() { return variant<XcaAttention>(); }

}  // namespace hg::nn
