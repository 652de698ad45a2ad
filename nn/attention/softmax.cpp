// softmax: A = softmax(Q K^T / sqrt(D)).
#include "nn/attention/variant.h"
#include "tensor/observer.h"
#include "tensor/ops/attention.h"

namespace hg::nn {
namespace {

class SoftmaxAttention final : public Attention {
 public:
  using Attention::Attention;
  static AttentionTraits traits(const AttentionOptions&) {
    return {.quadratic = true, .weights = true, .spread = true};
  }

  Tensor cross(const Tensor& x, const Tensor& memory, const Context& context) const override {
    require(!options_.causal, "attention", "a causal mask has no meaning between two sequences");
    const Scope scope("attn");
    const std::int64_t width = options_.inner();
    const Tensor q = inward_->part(x, 0, width);
    const Tensors qkv{q, inward_->part(memory, width, 2 * width),
                      inward_->part(memory, 2 * width, 3 * width)};
    const HeadSet heads(options_.heads);
    QuadraticOptions o = quadratic(context, {x, {}, heads}, memory.dim(1));
    o.apart = true;
    return project_out(attend(o, qkv, context, false), heads, context);
  }

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override {
    QuadraticOptions o = quadratic(context, core);
    if (o.dropout == 0 && !options_.causal && !o.apart && !wants_spread(context))
      return attention(core.qkv[0], o.heads);
    o.causal = options_.causal;
    return attend(o, core.qkv, context, false);
  }
};

}  // namespace

AttentionVariant softmax_attention() { return variant<SoftmaxAttention>(); }

}  // namespace hg::nn
