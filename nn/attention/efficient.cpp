// efficient: O = softmax(Q) (softmax(K)^T V), of queries over features, of keys over tokens.
#include "nn/attention/positions.h"
#include "nn/attention/variant.h"
#include "tensor/ops/linear_attention.h"
#include "tensor/ops/softmax.h"

namespace hg::nn {
namespace {

class EfficientAttention final : public Attention {
 public:
  using Attention::Attention;
  static AttentionTraits traits(const AttentionOptions&) { return {}; }

 private:
  Tensor mix(const CoreInput& core, const Context&) const override {
    const Tensors parts = core.parts();
    const std::int64_t heads = core.heads.count();
    const Tensor f = without_heads(softmax(with_heads(parts[0], heads)));
    return linear_attention(f, softmax(parts[1], 1), parts[2], heads);
  }
};

}  // namespace

AttentionVariant efficient_attention() { return variant<EfficientAttention>(); }

}  // namespace hg::nn
