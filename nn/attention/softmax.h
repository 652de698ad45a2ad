// softmax: A = softmax(Q K^T / sqrt(D)).
#pragma once

#include "nn/attention/attention.h"

namespace hg::nn {

class SoftmaxAttention final : public Attention {
 public:
  using Attention::Attention;
  // Queries of x [B, N, E], keys and values of `memory` [B, M, E].
  Tensor cross(const Tensor& x, const Tensor& memory, const Context& context) const;

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;
};

}  // namespace hg::nn
