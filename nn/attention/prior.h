// gmm and fiak: a_ij = p_ij e^s_ij / (its sum over j), p = min(|pi|, 1) learned, of each key
// (gmm, pi [H, N]) or of each pair (fiak, pi [H, N, N]).
#pragma once

#include "nn/attention/attention.h"

namespace hg::nn {

class PriorAttention final : public Attention {
 public:
  enum class Of { key, pair };
  PriorAttention(const Builder& parent, const AttentionOptions& options, Of of);

  const Tensor& pi() const { return pi_; }
  // Rows of A, over all heads, that no key has a prior for: their output is 0.
  std::int64_t empty_rows() const;

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;

  void record_sparsity(const Tensor& pi, const Context& context) const;

  Of of_;
  Tensor pi_;
};

}  // namespace hg::nn
