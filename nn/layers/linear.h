// A linear layer: weight [out, in], bias [out].
#pragma once

#include "nn/layers/parameter.h"

namespace hg::nn {

// x weight^T + bias; an undefined bias is left out.
Tensor affine(const Tensor& x, const Tensor& weight, const Tensor& bias);

class Linear {
 public:
  // Its parameters are NAME.weight and NAME.bias of `parent`; a profile lists it by NAME.
  Linear(const Builder& parent, std::string_view name, std::int64_t in, std::int64_t out,
         bool bias = true);
  // The last layer of a model: small weights, so that it begins undecided.
  static Linear head(const Builder& parent, std::string_view name, std::int64_t in,
                     std::int64_t out) {
    return {parent, name, {out, in}, Init::normal(0.02), true};
  }
  Tensor operator()(const Tensor& x) const;  // [.., in] -> [.., out]
  Tensor part(const Tensor& x, std::int64_t begin, std::int64_t end) const;  // outputs [begin, end)
  Tensor with_gelu(const Tensor& x) const;
  Tensor with_sigmoid(const Tensor& x) const;
  const std::string& name() const { return name_; }
  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }

 private:
  Linear(const Builder& parent, std::string_view name, const Shape& shape, const Init& weights,
         bool bias);

  std::string name_;
  Tensor weight_, bias_;  // the bias may be undefined
};

}  // namespace hg::nn
