// sparsemax and entmax15: softmax replaced by a map that gives exact zeros.
#pragma once

#include "nn/attention/attention.h"

namespace hg::nn {

class SparseAttention final : public Attention {
 public:
  SparseAttention(const Builder& parent, const AttentionOptions& options, QuadraticOptions::Map map)
      : Attention(parent, options), map_(map) {}

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;

  QuadraticOptions::Map map_;
};

}  // namespace hg::nn
