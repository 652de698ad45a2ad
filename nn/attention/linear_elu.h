// linear_elu: o_i = f(q_i)^T sum_j f(k_j) v_j^T / (f(q_i).sum_j f(k_j)) with f = elu + 1.
#pragma once

#include "nn/attention/attention.h"

namespace hg::nn {

class LinearEluAttention final : public Attention {
 public:
  using Attention::Attention;

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;
};

}  // namespace hg::nn
