// Several keys a token, with priors: what mgk and mlk share. The first key is in qkv; the others
// are projections of their own (k2 .. kM) or the first one shifted (shift [M-1, H, D]).
#pragma once

#include "nn/attention/attention.h"

namespace hg::nn {

class MixtureKeys {
 public:
  MixtureKeys(const Builder& attention, const AttentionOptions& options);

  // Keys 2 .. M, each [B, N, H D], of all tokens or of their first keys.
  Tensors extra(const CoreInput& core) const;
  // The priors [1 or H, 1, 1 or T, M]: softmaxed, clamped, or, with mode soft_e, as they are.
  Tensor priors(const HeadSet& heads) const;
  std::vector<Attention::ByHead> by_head() const;
  const Tensor& pi() const { return pi_; }

 private:
  AttentionOptions options_;
  std::vector<Linear> projections_;
  Tensor shift_, pi_;
};

}  // namespace hg::nn
