#include "nn/attention/efficient.h"

#include "nn/attention/positions.h"
#include "tensor/ops/linear_attention.h"
#include "tensor/ops/softmax.h"

namespace hg::nn {

Tensor EfficientAttention::mix(const Tensor&, const Tensor& qkv, const Context&,
                               const Tensor&) const {
  const Tensors parts = split_qkv(qkv);
  const Tensor f = without_heads(softmax(with_heads(parts[0], options_.heads)));
  return linear_attention(f, softmax(parts[1], 1), parts[2], options_.heads);
}

}  // namespace hg::nn
