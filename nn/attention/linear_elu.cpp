// linear_elu: o_i = f(q_i)^T sum_j f(k_j) v_j^T / (f(q_i).sum_j f(k_j)) with f = elu + 1.
#include "nn/attention/variant.h"
#include "tensor/ops/linear_attention.h"
#include "tensor/ops/unary.h"

namespace hg::nn {
namespace {

class LinearEluAttention final : public Attention {
 public:
  using Attention::Attention;
  static AttentionTraits traits(const AttentionOptions&) { return {}; }

 private:
  Tensor mix(const CoreInput& core, const Context&) const override {
    const Tensors parts = core.parts();
    return linear_attention(elu1(parts[0]), elu1(parts[1]), parts[2], core.heads.count(), 1e-6);
  }
};

}  // namespace

AttentionVariant linear_elu_attention() { return variant<LinearEluAttention>(); }

}  // namespace hg::nn
