// rbf: A = softmax(-|q - k|^2 / (2 sqrt(D))), the posterior of Gaussians around the keys.
#pragma once

#include "nn/attention/attention.h"

namespace hg::nn {

class RbfAttention final : public Attention {
 public:
  using Attention::Attention;

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;
};

}  // namespace hg::nn
