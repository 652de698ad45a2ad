// fiak_pruned: plain softmax (or the Gaussian's) on a fixed support. Keys that no query of a head
// attends to are not projected. A support other than all pairs is saved as bits: buffer `mask`
// [H, N, ceil(N / 64)], of each query a bit a key, lowest first.
#pragma once

#include "nn/attention/attention.h"

namespace hg::nn {

class PrunedAttention final : public Attention {
 public:
  PrunedAttention(const Builder& parent, const AttentionOptions& options);
  const PairSupport& support() const { return *support_; }

 private:
  Tensor mixed(CoreInput core, const Context& context) const override;
  Supports supports_of(const Tensor& ids) const;

  std::shared_ptr<const PairSupport> support_;
};

// The bits of a support, and back; the latter throws hg::Error where they are not such bits.
Tensor mask_of(const PairSupport& support);
std::shared_ptr<const PairSupport> support_of(const Tensor& mask);

}  // namespace hg::nn
