// Several keys a token, with priors: what mgk and mlk share. The first key is in qkv; the others
// are projections of their own (k2 .. kM) or the first one shifted (shift [M-1, H, D]).
#pragma once

#include "nn/attention/variant.h"

namespace hg::nn {

class MixtureAttention : public Attention {
 public:
  MixtureAttention(const Builder& self, const AttentionOptions& options);

 protected:
  // Keys 2 .. M, each [B, N, H D], of all tokens or of their first keys.
  Tensors extra_keys(const CoreInput& core) const;
  // The priors [1 or H, 1, 1 or T, M]: softmaxed, clamped, or, with mode soft_e, as they are.
  Tensor priors(const HeadSet& heads) const;

  Tensor pi_;

 private:
  std::vector<Linear> projections_;
  Tensor shift_;
};

}  // namespace hg::nn
