// xca: attention between channels. A = softmax(t_h Q^T K) over columns of length 1, O = V A^T.
#pragma once

#include "nn/attention/attention.h"

namespace hg::nn {

class XcaAttention final : public Attention {
 public:
  XcaAttention(const Builder& parent, const AttentionOptions& options);

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;

  Tensor temperature_;  // [H]
};

}  // namespace hg::nn
