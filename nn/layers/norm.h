// Layer norm over the last axis, with weight (gamma) and bias (beta).
#pragma once

#include "nn/layers/parameter.h"

namespace hg::nn {

class LayerNorm {
 public:
  LayerNorm(const Builder& parent, std::string_view name, std::int64_t width);
  Tensor operator()(const Tensor& x) const;  // [.., width] -> the same

 private:
  std::string name_;
  Tensor weight_, bias_;
};

}  // namespace hg::nn
