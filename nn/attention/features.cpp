// linear_elu, efficient and cosformer: linear attention by features without parameters,
// o_i = f(q_i)^T sum_j g(k_j) v_j^T / (f(q_i) . sum_j g(k_j)).
#include "nn/attention/positions.h"
#include "nn/attention/variant.h"
#include "tensor/ops/cos_features.h"
#include "tensor/ops/linear_attention.h"
#include "tensor/ops/softmax.h"
#include "tensor/ops/unary.h"

namespace hg::nn {
namespace {

struct Features {
  Tensor q, k;
  double floor = ops::LinearAttention::kNoDenominator;
};

// f = g = elu + 1
Features elu(const Tensors& parts, const CoreInput&, std::int64_t) {
  return {elu1(parts[0]), elu1(parts[1]), 1e-6};
}

// O = softmax(Q) (softmax(K)^T V), of queries over features, of keys over tokens.
Features softmaxes(const Tensors& parts, const CoreInput& core, std::int64_t) {
  return {without_heads(softmax(with_heads(parts[0], core.heads.count()))), softmax(parts[1], 1)};
}

// relu features, weighted by the cosine of the distance between positions
Features cosines(const Tensors& parts, const CoreInput& core, std::int64_t tokens) {
  const auto features = [&](const Tensor& x, const Tensor& ids) {
    return cos_features(x, ids, core.heads.count(), tokens);
  };
  return {features(parts[0], core.positions_of_queries()), features(parts[1], core.ids), 1e-6};
}

class FeatureAttention final : public Attention {
 public:
  using Of = Features (*)(const Tensors& parts, const CoreInput& core, std::int64_t tokens);
  FeatureAttention(const Builder& self, const AttentionOptions& o, Of of)
      : Attention(self, o), of_(of) {}
  static AttentionTraits traits(const AttentionOptions&) { return {}; }

 private:
  Tensor mix(const CoreInput& core, const Context&) const override {
    const Tensors parts = core.parts();
    const Features f = of_(parts, core, options_.tokens);
    return linear_attention(f.q, f.k, parts[2], core.heads.count(), f.floor);
  }

  Of of_;
};

}  // namespace

AttentionVariant linear_elu_attention() { return variant<FeatureAttention>(&elu); }
AttentionVariant efficient_attention() { return variant<FeatureAttention>(&softmaxes); }
AttentionVariant cosformer_attention() { return variant<FeatureAttention>(&cosines); }

}  // namespace hg::nn
