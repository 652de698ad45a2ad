// What a forward pass knows beside its input.
#pragma once

#include "tensor/ops/dropout.h"
#include "tensor/random.h"

namespace hg::nn {

struct Context {
  RandomStream* random = nullptr;  // of this pass; none: nothing random happens (evaluation)

  Tensor dropout(const Tensor& x, double probability) const {
    return random && probability > 0 ? hg::dropout(x, probability, *random) : x;
  }
};

}  // namespace hg::nn
