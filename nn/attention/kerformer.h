// kerformer: sigmoid of queries, softmax of keys over tokens or features, and SE-K: gates on tokens
// that see a squeeze of all keys (two linear layers, shared by the heads).
#pragma once

#include "nn/attention/attention.h"

namespace hg::nn {

class KerformerAttention final : public Attention {
 public:
  KerformerAttention(const Builder& parent, const AttentionOptions& options);

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;
  // SE-K gates [B, N, H] of raw keys and of their softmax, both [B, N, H, D].
  Tensor gates(const Tensor& keys, const Tensor& softmaxed, const Tensor& ids) const;

  Tensor weight1_, bias1_, weight2_, bias2_;  // [h, T], [h], [T, h], [T]; undefined without SE-K
};

}  // namespace hg::nn
