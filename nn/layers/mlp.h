// Linear(E -> r E), GELU, Linear(r E -> E).
#pragma once

#include "nn/layers/context.h"
#include "nn/layers/linear.h"

namespace hg::nn {

class Mlp {
 public:
  Mlp(const Builder& parent, std::int64_t width, std::int64_t hidden, double dropout);
  Tensor operator()(const Tensor& x, const Context& context) const;  // [.., E] -> [.., E]

 private:
  Linear fc1_, fc2_;
  double dropout_;
};

}  // namespace hg::nn
