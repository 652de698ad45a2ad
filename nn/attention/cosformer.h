// cosformer: relu features, reweighted by the cosine of the distance of positions.
#pragma once

#include "nn/attention/attention.h"

namespace hg::nn {

class CosformerAttention final : public Attention {
 public:
  using Attention::Attention;

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;
};

}  // namespace hg::nn
