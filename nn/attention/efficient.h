// efficient: O = softmax(Q) (softmax(K)^T V), queries over their features, keys over the tokens.
#pragma once

#include "nn/attention/attention.h"

namespace hg::nn {

class EfficientAttention final : public Attention {
 public:
  using Attention::Attention;

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;
};

}  // namespace hg::nn
