#include "nn/attention/efficient.h"

#include "nn/attention/positions.h"
#include "tensor/ops/linear_attention.h"
#include "tensor/ops/softmax.h"

namespace hg::nn {

Tensor EfficientAttention::mix(const CoreInput& core, const Context&) const {
  const Tensors parts = core.parts();
  const std::int64_t heads = core.heads.count();
  const Tensor f = without_heads(softmax(with_heads(parts[0], heads)));
  return linear_attention(f, softmax(parts[1], 1), parts[2], heads);
}

}  // namespace hg::nn
