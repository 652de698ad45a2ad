// Multi-head softmax attention: [Q|K|V] = x W_qkv + b, fused core, output projection.
#pragma once

#include "nn/context.h"
#include "nn/linear.h"

namespace hg::nn {

struct AttentionOptions {
  std::int64_t width, heads, dim_head;
  bool qkv_bias;
  double dropout;  // on the projected output
};

class SoftmaxAttention {
 public:
  SoftmaxAttention(const Builder& parent, const AttentionOptions& options);
  Tensor operator()(const Tensor& x, const Context& context) const;  // [B, N, E] -> [B, N, E]

 private:
  AttentionOptions options_;
  Linear qkv_, proj_;
};

}  // namespace hg::nn
