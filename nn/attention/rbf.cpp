// rbf: A = softmax(-|q - k|^2 / (2 sqrt(D))), the posterior of Gaussians around the keys.
#include "nn/attention/variant.h"

namespace hg::nn {
namespace {

class RbfAttention final : public Attention {
 public:
  using Attention::Attention;
  static AttentionTraits traits(const AttentionOptions&) {
    return {.quadratic = true, .weights = true, .likelihood = true, .spread = true};
  }

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override {
    QuadraticOptions o = quadratic(context, core);
    o.score = QuadraticOptions::Score::rbf;
    return attend(o, core.qkv, context, true);
  }
};

}  // namespace

AttentionVariant rbf_attention() { return variant<RbfAttention>(); }

}  // namespace hg::nn
