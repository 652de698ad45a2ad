// What a call of quadratic attention computes: see tensor/ops/quadratic_attention.h.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

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
  double variance_of(int component, std::int64_t width) const {
    const double given = variance[component];
    return given > 0 ? given : std::sqrt(static_cast<double>(width));
  }
  // Whether |q|^2 is part of the logits; where it cancels it is left out.
  bool keeps_query_norm(std::int64_t width) const {
    if (likelihood) return true;
    for (int r = 1; r < components(); ++r)
      if (score == Score::rbf && variance_of(r, width) != variance_of(0, width)) return true;
    return false;
  }
};

}  // namespace hg
