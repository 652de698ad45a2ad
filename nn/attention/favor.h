// favor: positive random features of the softmax kernel (Performer). omega [m, D], shared by the
// heads, is a buffer that is drawn anew every `redraw` training steps.
#pragma once

#include "nn/attention/attention.h"

namespace hg::nn {

class FavorAttention final : public Attention {
 public:
  FavorAttention(const Builder& parent, const AttentionOptions& options);
  void begin_step(std::int64_t step) const override;
  const Tensor& omega() const { return omega_; }

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;
  void draw(std::int64_t index) const;

  std::uint64_t seed_;
  std::string stream_;
  Tensor omega_;
};

}  // namespace hg::nn
