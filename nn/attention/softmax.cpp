#include "nn/attention/softmax.h"

#include "tensor/observer.h"
#include "tensor/ops/attention.h"

namespace hg::nn {

SoftmaxAttention::SoftmaxAttention(const Builder& parent, const AttentionOptions& o)
    : options_(o),
      qkv_(parent.child("attn"), "qkv", o.width, 3 * o.heads * o.dim_head, o.qkv_bias),
      proj_(parent.child("attn"), "proj", o.heads * o.dim_head, o.width) {}

Tensor SoftmaxAttention::operator()(const Tensor& x, const Context& context) const {
  const Scope scope("attn");
  const Tensor mixed = attention(qkv_(x), options_.heads);
  return context.dropout(proj_(mixed), options_.dropout);
}

}  // namespace hg::nn
