// Pre-norm block: x + Attn(LN(x)), then x + MLP(LN(x)).
#pragma once

#include "nn/attention/softmax.h"
#include "nn/mlp.h"
#include "nn/norm.h"

namespace hg::nn {

class Block {
 public:
  Block(const Builder& parent, const std::string& name, const AttentionOptions& attention,
        std::int64_t mlp_hidden);
  Tensor operator()(const Tensor& x, const Context& context) const;

 private:
  std::string name_;
  LayerNorm norm1_;
  SoftmaxAttention attention_;
  LayerNorm norm2_;
  Mlp mlp_;
};

}  // namespace hg::nn
