#include "nn/attention/linear_elu.h"

#include "nn/attention/positions.h"
#include "tensor/ops/linear_attention.h"
#include "tensor/ops/unary.h"

namespace hg::nn {

Tensor LinearEluAttention::mix(const CoreInput& core, const Context&) const {
  const Tensors parts = core.parts();
  return linear_attention(elu1(parts[0]), elu1(parts[1]), parts[2], core.heads.count(), 1e-6);
}

}  // namespace hg::nn
