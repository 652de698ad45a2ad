// What mgk and mlk share: a token has M keys, with priors. The first key is in qkv; the others have
// projections of their own (k2 .. kM) or are the first one shifted (shift [M-1, H, D]).
#pragma once

#include "nn/attention/variant.h"

namespace hg::nn {

class MixtureAttention : public Attention {
 public:
  MixtureAttention(const Builder& self, const AttentionOptions& options);

 protected:
  // Keys 2 .. M of all tokens, each [B, N, H D].
  Tensors extra_keys(const CoreInput& core) const;
  // The priors [1 or H, 1, 1 or T, M]: softmaxed, clamped, or, with mode soft_e, as they are.
  Tensor priors(const HeadSet& heads) const;

  Tensor pi_;

 private:
  std::vector<Linear> projections_;
  Tensor shift_;
};

}  // namespace hg::nn
