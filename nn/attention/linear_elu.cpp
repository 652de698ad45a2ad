#include "nn/attention/linear_elu.h"

#include "nn/attention/positions.h"
#include "tensor/ops/linear_attention.h"
#include "tensor/ops/unary.h"

namespace hg::nn {

Tensor LinearEluAttention::mix(const Tensor&, const Tensor& qkv, const Context&,
                               const Tensor&) const {
  const Tensors parts = split_qkv(qkv);
  return linear_attention(elu1(parts[0]), elu1(parts[1]), parts[2], options_.heads, 1e-6);
}

}  // namespace hg::nn
