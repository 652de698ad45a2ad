#include "nn/layers/norm.h"

#include "tensor/observer.h"
#include "tensor/ops/layer_norm.h"

namespace hg::nn {

LayerNorm::LayerNorm(const Builder& parent, std::string_view name, std::int64_t width)
    : name_(name) {
  const Builder self = parent.child(name);
  weight_ = self.make("weight", {width}, Init::constant(1));
  bias_ = self.make("bias", {width}, Init::constant(0));
}

Tensor LayerNorm::operator()(const Tensor& x) const {
  const Scope scope(name_, Scope::kLeaf);
  return layer_norm(x, weight_, bias_);
}

}  // namespace hg::nn
