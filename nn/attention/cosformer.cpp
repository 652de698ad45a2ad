#include "nn/attention/cosformer.h"

#include "nn/attention/positions.h"
#include "tensor/ops/cos_features.h"
#include "tensor/ops/linear_attention.h"

namespace hg::nn {

Tensor CosformerAttention::mix(const CoreInput& core, const Context&) const {
  const Tensors parts = core.parts();
  const std::int64_t heads = core.heads.count();
  const auto features = [&](const Tensor& x, const Tensor& ids) {
    return cos_features(x, ids, heads, options_.tokens);
  };
  return linear_attention(features(parts[0], core.positions_of_queries()),
                          features(parts[1], core.ids), parts[2], heads, 1e-6);
}

}  // namespace hg::nn
