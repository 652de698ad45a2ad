#include "nn/attention/softmax.h"

#include "tensor/observer.h"
#include "tensor/ops/attention.h"

namespace hg::nn {

Tensor SoftmaxAttention::mix(const Tensor& x, const Tensor& qkv, const Context& context,
                             const Tensor&) const {
  QuadraticOptions o = quadratic(context, x, x.dim(1));
  if (o.dropout == 0 && !options_.causal) return attention(qkv, options_.heads);
  o.causal = options_.causal;
  return attend(o, {&qkv, 1}, context, false);
}

Tensor SoftmaxAttention::cross(const Tensor& x, const Tensor& memory,
                               const Context& context) const {
  require(!options_.causal, "attention", "a causal mask has no meaning between two sequences");
  const Scope scope("attn");
  const std::int64_t width = options_.inner();
  const Tensor q = qkv_.part(x, 0, width);
  const Tensors qkv{q, qkv_.part(memory, width, 2 * width),
                    qkv_.part(memory, 2 * width, 3 * width)};
  QuadraticOptions o = quadratic(context, x, memory.dim(1));
  o.apart = true;
  return project_out(attend(o, qkv, context, false), context);
}

}  // namespace hg::nn
