// sparsemax and entmax15: softmax replaced by a map that gives exact zeros.
#include "nn/attention/variant.h"

namespace hg::nn {
namespace {

class SparseMapAttention final : public Attention {
 public:
  SparseMapAttention(const Builder& self, const AttentionOptions& o, QuadraticOptions::Map map)
      : Attention(self, o), map_(map) {}
  static AttentionTraits traits(const AttentionOptions&) {
    return {.quadratic = true, .weights = true, .spread = true};
  }

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override {
    QuadraticOptions o = quadratic(context, core);
    o.map = map_;
    return attend(o, core.qkv, context, false);
  }

  QuadraticOptions::Map map_;
};

}  // namespace

AttentionVariant sparsemax_attention() {
  return variant<SparseMapAttention>(QuadraticOptions::Map::sparsemax);
}
AttentionVariant entmax15_attention() {
  return variant<SparseMapAttention>(QuadraticOptions::Map::entmax15);
}

}  // namespace hg::nn
