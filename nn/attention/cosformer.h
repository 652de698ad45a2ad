// cosformer: relu features, reweighted by the cosine of the distance of positions.
#pragma once

#include "nn/attention/attention.h"

namespace hg::nn {

class CosformerAttention final : public Attention {
 public:
  using Attention::Attention;

 private:
  Tensor mix(const Tensor& x, const Tensor& qkv, const Context& context,
             const Tensor& ids) const override;
};

}  // namespace hg::nn
