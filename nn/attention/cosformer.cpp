// cosformer: relu features, weighted by the cosine of the distance between positions.
#include "nn/attention/variant.h"
#include "tensor/ops/cos_features.h"
#include "tensor/ops/linear_attention.h"

namespace hg::nn {
namespace {

class CosformerAttention final : public Attention {
 public:
  using Attention::Attention;
  static AttentionTraits traits(const AttentionOptions&) { return {}; }

 private:
  Tensor mix(const CoreInput& core, const Context&) const override {
    const Tensors parts = core.parts();
    const std::int64_t heads = core.heads.count();
    const auto features = [&](const Tensor& x, const Tensor& ids) {
      return cos_features(x, ids, heads, options_.tokens);
    };
    return linear_attention(features(parts[0], core.positions_of_queries()),
                            features(parts[1], core.ids), parts[2], heads, 1e-6);
  }
};

}  // namespace

AttentionVariant cosformer_attention() { return variant<CosformerAttention>(); }

}  // namespace hg::nn
