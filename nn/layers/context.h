// What a forward pass is given besides its input.
#pragma once

#include <optional>

#include "tensor/ops/dropout.h"
#include "tensor/ops/quadratic_attention.h"
#include "tensor/random.h"

namespace hg::nn {

// A layer, or a part of one, that learns from records of its passes, without a gradient.
class Learner {
 public:
  virtual ~Learner() = default;
  // After a training step: the records of its passes, in their order.
  virtual void learn(const CachedVector<Tensors>&) const {}
};

// Terms that push attention to few keys, priors or gates (nn/METHODS.md, section 3).
enum class Sparsity { entropy, gini, hoyer, gate_l1, l1_pi };

// What a training pass gives besides its output.
struct PassRecord {
  bool wants_likelihood = false;
  Tensors likelihood;  // of each layer [1]: mean over images, heads and queries of LSE_j - ln N

  std::optional<Sparsity> wants_sparsity;
  Tensors sparsity;  // of each layer that has the term [1], a mean over what the pass saw

  bool wants_budget = false;
  Tensors budget;  // of each gated layer [1]: mean over images of (mean_h alpha - rho)^2

  // Whether the loss has gradients for gates of heads that do not work.
  bool reaches_all_gates() const { return wants_budget || wants_sparsity == Sparsity::gate_l1; }

  // For reports: how each query's attention weights are spread, [B, H, N] of each layer. While it
  // is asked for there is no sparsity term.
  QuadraticOptions::Spread probe = QuadraticOptions::Spread::none;
  struct Probed {
    Tensor spread;
    std::int64_t keys;  // of each query
  };
  CachedVector<Probed> probed;

  // What layers learn from the pass.
  struct Statistic {
    const Learner* learner;
    Tensors values;
  };
  CachedVector<Statistic> statistics;
};

struct Context {
  RandomStream* random = nullptr;  // of this pass; null: nothing is random (evaluation)
  PassRecord* record = nullptr;    // null: only the output is wanted

  Tensor dropout(const Tensor& x, double probability) const {
    return random && probability > 0 ? hg::dropout(x, probability, *random) : x;
  }
  bool wants_likelihood() const { return record && record->wants_likelihood; }
  bool wants(Sparsity kind) const { return record && record->wants_sparsity == kind; }
};

}  // namespace hg::nn
