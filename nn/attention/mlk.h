// mlk: the linear form of mgk. A token's feature is the mixture sum_r pi_r f(k_r), f = elu + 1.
#pragma once

#include "nn/attention/mixture_keys.h"

namespace hg::nn {

class MlkAttention final : public Attention {
 public:
  MlkAttention(const Builder& parent, const AttentionOptions& options);

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;
  Tensor features(const Tensor& x) const;  // [B, N, H, D]
  // x times its component's priors, which `priors` [M, 1 or T, 1 or H] holds.
  Tensor weighed(const Tensor& x, const Tensor& priors, std::int64_t component,
                 const Tensor& ids) const;

  MixtureKeys keys_;
};

}  // namespace hg::nn
