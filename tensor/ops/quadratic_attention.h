// Attention over all pairs of tokens, fused: o = A v per (image, head), where a query's weights A
// come of a score (dot or Gaussian), of one or several keys a token, of priors on keys or pairs,
// and of a row map (softmax or a sparse one). Only a block of score rows exists at a time.
//
// Inputs: qkv [B, N, 3 H D], or apart q [B, N, H D], k and v [B, M, H D]; then the extra keys, each
// [B, M, H D]; then the prior [H or 1, T or 1, T or 1, R] by head, query, key and component; then
// ids [M] or [B, M], the position in 0..T-1 of each token (without them position = index), and
// query_ids [B, N], those of the queries where they are not the keys' own tokens.
#pragma once

#include <array>

#include "tensor/op.h"

namespace hg {

struct QuadraticOptions {
  // logit of query i on key j, component r: dot q.k / s2_r; rbf -|q - k|^2 / (2 s2_r)
  enum class Score { dot, rbf };
  // softmax: over all keys and components, a_ij the sum over components; best: over keys, each by
  // its best component; the sparse ones: one component, no prior
  enum class Map { softmax, best, sparsemax, entmax15 };
  // Weights are multiplied by the prior, as it is (>= 0) or clipped to min(|prior|, 1).
  enum class Prior { none, plain, clipped };
  // What the last output says of a query's weights, before dropout: their entropy, the sum of their
  // squares (both with a gradient), or how many are below kSmall / keys.
  enum class Spread { none, entropy, squares, small };
  static constexpr double kSmall = 1e-3;
  static constexpr int kMostComponents = 16;

  std::int64_t heads = 1;
  bool apart = false;         // q, k and v come apart
  int extra_keys = 0;         // keys beside those of the first inputs
  bool replace_keys = false;  // ... or in place of them
  Score score = Score::dot;
  Map map = Map::softmax;
  Prior prior = Prior::none;
  bool ids = false, query_ids = false;
  std::array<double, kMostComponents> variance{};  // s2_r; 0: sqrt(D)
  bool norm_const = false;                         // logits have - D/2 ln s2_r
  bool likelihood = false;        // lse has the whole logits, |q|^2 too, and a gradient
  bool responsibilities = false;  // third output: sum over i of component r's share in pair (i, j)
  Spread spread = Spread::none;
  bool causal = false;  // query i sees keys 0..i
  double dropout = 0;   // of weights, with draws of stream `key` from `first` on
  std::uint64_t key = 0, first = 0;

  int components() const { return extra_keys + (replace_keys ? 0 : 1); }
  int base_inputs() const { return apart ? 3 : 1; }
  int prior_input() const { return base_inputs() + extra_keys; }
  bool spread_gradient() const { return spread == Spread::entropy || spread == Spread::squares; }
  int spread_output() const { return responsibilities ? 3 : 2; }
  int position_inputs() const { return ids + query_ids; }
  int inputs() const { return prior_input() + (prior != Prior::none) + position_inputs(); }
  double variance_of(int component, std::int64_t width) const;
  // Whether |q|^2 is part of the logits; where it cancels it is left out.
  bool keeps_query_norm(std::int64_t width) const;
};

namespace ops {

class QuadraticAttention final : public OpOf<QuadraticAttention> {
 public:
  explicit QuadraticAttention(const QuadraticOptions& options) : options(options) {}

  std::string_view name() const override { return "quadratic_attention"; }
  // o [B, N, H D]; lse [B, H, N], for sparse maps the threshold; responsibilities [B, H, M, R];
  // spread [B, H, N]
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;  // parts: qk, weights, av
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  Tensors grad(const GradArgs& args) const override;
  Indices auxiliary_outputs() const override {
    Indices kept;
    if (!options.likelihood) kept.bits |= Indices{1}.bits;
    if (options.responsibilities) kept.bits |= Indices{2}.bits;
    if (!options.spread_gradient()) kept.bits |= Indices{2, 3}.bits;
    return kept;
  }
  static Samples samples();

  const QuadraticOptions options;
};

// inputs do, o, lse, dlse if there is a likelihood, spread and dspread if that has a gradient, then
// the forward's inputs; outputs their gradients (ids left out, the prior's only if wanted)
class QuadraticAttentionBackward final : public NonDifferentiable<QuadraticAttentionBackward> {
 public:
  static constexpr std::string_view kNotDifferentiable = kNoSecondDerivative;
  QuadraticAttentionBackward(const QuadraticOptions& options, bool wants_prior)
      : options(options), wants_prior(wants_prior) {}

  std::string_view name() const override { return "quadratic_attention_backward"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;  // parts: qk, weights, av
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  static Samples samples();

  int spread_input() const { return options.likelihood ? 4 : 3; }
  int before() const {  // inputs before the forward's
    return spread_input() + (options.spread_gradient() ? 2 : 0);
  }
  const QuadraticOptions options;
  const bool wants_prior;
};

}  // namespace ops

// Inputs as above; the result is o, lse and, if asked for, responsibilities and spread.
Tensors quadratic_attention(const QuadraticOptions& options, In in);

}  // namespace hg
