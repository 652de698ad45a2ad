// Attention over all pairs of tokens, fused: o = A v per (image, head), where a query's weights A
// come of a score (dot or Gaussian), of one or several keys a token, of priors on keys or pairs,
// and of a row map (softmax or a sparse one). Only a block of score rows exists at a time.
//
// Inputs: qkv [B, N, 3 H D], or apart q [B, N, H D], k and v [B, M, H D]; then the extra keys, each
// [B, M, H D]; then the prior [H or 1, T or 1, T or 1, R] by head, query, key and component; then
// ids [M] or [B, M], the position in 0..T-1 of each token (without them position = index), and
// query_ids [B, N], those of the queries where they are not the keys' own tokens.
#pragma once

#include "tensor/ops/attention/quadratic_options.h"
#include "tensor/run.h"

namespace hg {
namespace ops {

// outputs o [B, N, H D]; lse [B, H, N], for sparse maps the threshold; if asked for,
// responsibilities [B, H, M, R] and spread [B, H, N]; parts of the cost, as backward: qk, weights,
// av
class QuadraticAttention final : public OpOf<QuadraticAttention> {
 public:
  explicit QuadraticAttention(const QuadraticOptions& options) : options(options) {}
  HG_DECLARE_DIFFERENTIABLE_OP("quadratic_attention");
  Indices auxiliary_outputs() const override {
    Indices kept;
    if (!options.likelihood) kept.bits |= Indices{1}.bits;
    if (options.responsibilities) kept.bits |= Indices{2}.bits;
    if (!options.spread_gradient()) kept.bits |= Indices{2, 3}.bits;
    return kept;
  }

  const QuadraticOptions options;
};

// inputs do, o, lse, dlse if there is a likelihood, spread and dspread if that has a gradient, then
// the forward's inputs; outputs their gradients (ids left out, the prior's only if wanted)
class QuadraticAttentionBackward final : public GradientOp<QuadraticAttentionBackward> {
 public:
  QuadraticAttentionBackward(const QuadraticOptions& options, bool wants_prior)
      : options(options), wants_prior(wants_prior) {}
  HG_DECLARE_OP("quadratic_attention_backward");

  int spread_input() const { return options.likelihood ? 4 : 3; }
  int before() const {  // inputs before the forward's
    return spread_input() + (options.spread_gradient() ? 2 : 0);
  }
  const QuadraticOptions options;
  const bool wants_prior;
};

}  // namespace ops

// Inputs as above; the result is o, lse and, if asked for, responsibilities and spread.
inline Tensors quadratic_attention(const QuadraticOptions& options, In in) {
  return run(ops::QuadraticAttention(options), in);
}

}  // namespace hg
