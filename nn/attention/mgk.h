// mgk: each token has a mixture of M Gaussian keys; a_ij is the mixture's share of token j.
#pragma once

#include "nn/attention/mixture_keys.h"

namespace hg::nn {

class MgkAttention final : public Attention {
 public:
  MgkAttention(const Builder& parent, const AttentionOptions& options);
  // soft_e: pi becomes the mean responsibility of its component over images and queries (and over
  // what else the pi's shape has no axis for).
  void learn(const CachedVector<Tensors>& passes) const override;

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;
  // Sums of responsibilities and how many pairs are in them, by position: [T, H M], [T].
  Tensors by_position(const Tensor& responsibilities, const Tensor& ids,
                      std::int64_t queries) const;

  MixtureKeys keys_;
};

}  // namespace hg::nn
