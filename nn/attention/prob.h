// prob: attention as the MAP value of a joint mixture over queries and values. T EM steps adapt the
// keys to the queries; then the Gaussian posterior (or, with the magnitude prior, softmax). With
// value propagation every token's value is known, and units' values are first drawn to those of the
// tokens that answer to them.
#pragma once

#include "nn/attention/attention.h"

namespace hg::nn {

class ProbAttention final : public Attention {
 public:
  using Attention::Attention;

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;
};

}  // namespace hg::nn
