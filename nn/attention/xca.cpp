#include "nn/attention/xca.h"

#include "nn/attention/positions.h"
#include "tensor/ops/l2_normalize.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/permute.h"
#include "tensor/ops/scale_axes.h"
#include "tensor/ops/softmax.h"

namespace hg::nn {

XcaAttention::XcaAttention(const Builder& parent, const AttentionOptions& o)
    : Attention(parent, o) {
  Builder self = parent.child("attn");
  temperature_ = by_head(self.make("temperature", {o.heads}, Init::constant(1), false));
}

Tensor XcaAttention::mix(const CoreInput& core, const Context& context) const {
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

}  // namespace hg::nn
