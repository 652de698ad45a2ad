#include "nn/attention/cosformer.h"

#include "nn/attention/positions.h"
#include "tensor/ops/cos_features.h"
#include "tensor/ops/linear_attention.h"

namespace hg::nn {

Tensor CosformerAttention::mix(const Tensor&, const Tensor& qkv, const Context&,
                               const Tensor& ids) const {
  const Tensors parts = split_qkv(qkv);
  const auto features = [&](const Tensor& x) {
    return cos_features(x, ids, options_.heads, options_.tokens);
  };
  return linear_attention(features(parts[0]), features(parts[1]), parts[2], options_.heads, 1e-6);
}

}  // namespace hg::nn
