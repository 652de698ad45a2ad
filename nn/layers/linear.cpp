#include "nn/layers/linear.h"

#include "tensor/observer.h"
#include "tensor/ops/linear.h"
#include "tensor/ops/unary.h"
#include "tensor/ops/view.h"

namespace hg::nn {

Linear::Linear(const Builder& parent, std::string_view name, std::int64_t in, std::int64_t out,
               bool bias)
    : name_(name) {
  Builder self = parent.child(name);
  weight_ = self.make("weight", {out, in}, Init::normal(0.02));
  if (bias) bias_ = self.make("bias", {out}, Init::constant(0));
}

Tensor Linear::operator()(const Tensor& x) const {
  const Scope scope(name_, Scope::kLeaf);
  return bias_.defined() ? hg::linear(x, weight_, bias_) : hg::linear(x, weight_);
}

Tensor Linear::part(const Tensor& x, std::int64_t begin, std::int64_t end) const {
  const Scope scope(name_, Scope::kLeaf);
  const Tensor weight = slice(weight_, begin, end);
  return bias_.defined() ? hg::linear(x, weight, slice(bias_, begin, end)) : hg::linear(x, weight);
}

Tensor Linear::with_gelu(const Tensor& x) const {
  const Scope scope(name_, Scope::kLeaf);
  return bias_.defined() ? hg::linear_gelu(x, weight_, bias_) : gelu(hg::linear(x, weight_));
}

Tensor Linear::with_sigmoid(const Tensor& x) const {
  const Scope scope(name_, Scope::kLeaf);
  return sigmoid(bias_.defined() ? hg::linear(x, weight_, bias_) : hg::linear(x, weight_));
}

}  // namespace hg::nn
