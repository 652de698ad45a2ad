// What a forward pass knows beside its input.
#pragma once

#include "tensor/ops/dropout.h"
#include "tensor/random.h"

namespace hg::nn {

class Attention;

// What a training pass leaves behind beside its output.
struct PassRecord {
  bool wants_likelihood = false;
  Tensors likelihood;  // of each layer [1]: mean over images, heads and queries of LSE_j - ln N

  // What layers learn from the pass without a gradient (Attention::learn).
  struct Statistic {
    const Attention* layer;
    Tensors values;
  };
  CachedVector<Statistic> statistics;
};

struct Context {
  RandomStream* random = nullptr;  // of this pass; none: nothing random happens (evaluation)
  PassRecord* record = nullptr;    // none: nothing is asked for beside the output

  Tensor dropout(const Tensor& x, double probability) const {
    return random && probability > 0 ? hg::dropout(x, probability, *random) : x;
  }
  bool wants_likelihood() const { return record && record->wants_likelihood; }
};

}  // namespace hg::nn
