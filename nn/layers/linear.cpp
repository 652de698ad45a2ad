#include "nn/layers/linear.h"

#include "tensor/observer.h"
#include "tensor/ops/linear.h"
#include "tensor/ops/unary.h"
#include "tensor/ops/view.h"

namespace hg::nn {

Tensor affine(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return bias.defined() ? hg::linear(x, weight, bias) : hg::linear(x, weight);
}

Linear::Linear(const Builder& parent, std::string_view name, std::int64_t in, std::int64_t out,
               bool bias)
    : Linear(parent, name, {out, in}, weight_init(parent.parameters().weights(), in), bias) {}

Linear::Linear(const Builder& parent, std::string_view name, const Shape& shape,
               const Init& weights, bool bias)
    : name_(name) {
  const Builder self = parent.child(name);
  weight_ = self.make("weight", shape, weights);
  if (bias) bias_ = self.make("bias", {shape[0]}, Init::constant(0));
}

Tensor Linear::operator()(const Tensor& x) const {
  const Scope scope(name_, Scope::kLeaf);
  return affine(x, weight_, bias_);
}

Tensor Linear::part(const Tensor& x, std::int64_t begin, std::int64_t end) const {
  const Scope scope(name_, Scope::kLeaf);
  const Tensor weight = slice(weight_, begin, end);
  return affine(x, weight, bias_.defined() ? slice(bias_, begin, end) : bias_);
}

Tensor Linear::with_gelu(const Tensor& x) const {
  const Scope scope(name_, Scope::kLeaf);
  return bias_.defined() ? hg::linear_gelu(x, weight_, bias_) : gelu(hg::linear(x, weight_));
}

Tensor Linear::with_sigmoid(const Tensor& x) const {
  const Scope scope(name_, Scope::kLeaf);
  return sigmoid(affine(x, weight_, bias_));
}

}  // namespace hg::nn
