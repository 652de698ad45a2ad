#include "nn/layers/mlp.h"

#include "tensor/observer.h"

namespace hg::nn {

Mlp::Mlp(const Builder& parent, std::int64_t width, std::int64_t hidden, double dropout)
    : fc1_(parent.child("mlp"), "fc1", width, hidden),
      fc2_(parent.child("mlp"), "fc2", hidden, width),
      dropout_(dropout) {}

Tensor Mlp::operator()(const Tensor& x, const Context& context) const {
  const Scope scope("mlp");
  const Tensor hidden = context.dropout(fc1_.with_gelu(x), dropout_);
  return context.dropout(fc2_(hidden), dropout_);
}

}  // namespace hg::nn
