// linformer: keys and values compressed to P rows, O = softmax(Q (E_k K)^T / sqrt(D)) (E_v V), with
// proj_k and proj_v [P, T] shared by the heads.
#pragma once

#include "nn/attention/attention.h"

namespace hg::nn {

class LinformerAttention final : public Attention {
 public:
  LinformerAttention(const Builder& parent, const AttentionOptions& options);

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;
  Tensor compress(const Tensor& x, const Tensor& projection, const Tensor& ids) const;

  Tensor proj_k_, proj_v_;
};

}  // namespace hg::nn
