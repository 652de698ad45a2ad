#include "nn/attention/prior.h"

#include <algorithm>
#include <cmath>

#include "tensor/ops/view.h"

namespace hg::nn {

// Any constant start is softmax; its size sets how fast ln pi moves.
PriorAttention::PriorAttention(const Builder& parent, const AttentionOptions& o, Of of)
    : Attention(parent, o), of_(of) {
  const auto n = static_cast<double>(o.tokens);
  Builder self = parent.child("attn");
  pi_ = of == Of::key ? self.make("pi", {o.heads, o.tokens}, Init::constant(1 / n), false)
                      : self.make("pi", {o.heads, o.tokens, o.tokens},
                                  Init::constant(1 / std::sqrt(n)), false);
}

Tensor PriorAttention::mix(const Tensor& x, const Tensor& qkv, const Context& context,
                           const Tensor& ids) const {
  QuadraticOptions o = quadratic(context, x, x.dim(1));
  o.prior = QuadraticOptions::Prior::clipped;
  if (options_.rbf_score) o.score = QuadraticOptions::Score::rbf;
  const std::int64_t queries = of_ == Of::key ? 1 : options_.tokens;
  Tensors inputs{qkv, reshape(pi_, {options_.heads, queries, options_.tokens, 1})};
  o.ids = ids.defined();
  if (o.ids) inputs.push_back(ids);
  return attend(o, inputs, context, options_.rbf_score);
}

std::int64_t PriorAttention::empty_rows() const {
  const float* const pi = pi_.data<float>();
  const std::int64_t n = options_.tokens, rows = pi_.numel() / n;
  std::int64_t empty = 0;
  for (std::int64_t r = 0; r < rows; ++r)
    empty += std::all_of(pi + r * n, pi + (r + 1) * n, [](float p) { return p == 0; });
  return of_ == Of::key ? empty * n : empty;
}

}  // namespace hg::nn
