// The head of a contrastive phase: Linear(E -> E), GELU, Linear(E -> 128), scaled to length 1.
#pragma once

#include "nn/layers/linear.h"

namespace hg::nn {

class Projector {
 public:
  static constexpr std::int64_t kWidth = 128;

  Projector(const Builder& parent, std::int64_t width);
  Tensor operator()(const Tensor& features) const;  // [B,E] -> [B,128]

 private:
  Linear hidden_, out_;  // projector.0 and projector.2
};

}  // namespace hg::nn
