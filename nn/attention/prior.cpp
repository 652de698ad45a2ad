// gmm and fiak: a_ij = p_ij e^s_ij / (its sum over j), p = min(|pi|, 1) learned, of each key
// (gmm, pi [H, N]) or of each pair (fiak, pi [H, N, N]).
#include <algorithm>
#include <cmath>
#include <limits>

#include "nn/attention/variant.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/unary.h"
#include "tensor/ops/view.h"
#include "tensor/transfer.h"

namespace hg::nn {
namespace {

// mean over rows p of (|p|_1 / |p|_2 - 1) / (sqrt(N) - 1): 1 if all elements are equal, 0 if only
// one is not 0. A row of zeros gives 0.
Tensor hoyer(const Tensor& p) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const Tensor rows = reshape(p, {-1, p.dim(-1)});
  const Tensor norm = sqrt(clamp(sum(square(rows), 1), 1e-30, kLargest));
  const Tensor ratio = clamp(div(sum(rows, 1), norm), 1, kLargest);
  const Tensor over = add(mean_all(ratio), Tensor::full({1}, -1, p.dtype(), p.device()));
  return scale(over, 1 / (std::sqrt(static_cast<double>(p.dim(-1))) - 1));
}

class PriorAttention final : public Attention {
 public:
  enum class Of { key, pair };
  PriorAttention(const Builder& self, const AttentionOptions& options, Of of);

  std::int64_t empty_rows() const override;
  static AttentionTraits traits(const AttentionOptions& o) {
    return {.quadratic = true,
            .weights = true,
            .likelihood = o.rbf_score,
            .spread = true,
            .priors = true};
  }

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;

  void record_sparsity(const Tensor& pi, const Context& context) const;

  Of of_;
  Tensor pi_;
};

// With any constant it starts as softmax; the constant sets how fast ln pi moves.
PriorAttention::PriorAttention(const Builder& self, const AttentionOptions& o, Of of)
    : Attention(self, o), of_(of) {
  const auto n = static_cast<double>(o.tokens);
  pi_ = of == Of::key ? self.make("pi", {o.heads, o.tokens}, Init::constant(1 / n), false)
                      : self.make("pi", {o.heads, o.tokens, o.tokens},
                                  Init::constant(1 / std::sqrt(n)), false);
  by_head(pi_);
}

Tensor PriorAttention::mix(const CoreInput& core, const Context& context) const {
  QuadraticOptions o = quadratic(context, core);
  const Tensor pi = core.heads.of(pi_);
  record_sparsity(pi, context);
  o.prior = QuadraticOptions::Prior::clipped;
  if (options_.rbf_score) o.score = QuadraticOptions::Score::rbf;
  const std::int64_t queries = of_ == Of::key ? 1 : options_.tokens;
  Tensors inputs = core.qkv;
  inputs.push_back(reshape(pi, {o.heads, queries, options_.tokens, 1}));
  o.ids = core.ids.defined();
  if (o.ids) inputs.push_back(core.ids);
  o.query_ids = core.apart() && of_ == Of::pair;
  if (o.query_ids) inputs.push_back(core.query_ids);
  return attend(o, inputs, context, options_.rbf_score);
}

void PriorAttention::record_sparsity(const Tensor& pi, const Context& context) const {
  if (context.wants(Sparsity::l1_pi)) context.record->sparsity.push_back(mean_all(abs(pi)));
  if (context.wants(Sparsity::hoyer) && options_.tokens > 1)
    context.record->sparsity.push_back(hoyer(clamp(abs(pi), 0, 1)));
}

std::int64_t PriorAttention::empty_rows() const {
  const Tensor here = on_host(pi_);
  const float* const pi = here.data<float>();
  const std::int64_t n = options_.tokens, rows = pi_.numel() / n;
  std::int64_t empty = 0;
  for (std::int64_t r = 0; r < rows; ++r)
    empty += std::all_of(pi + r * n, pi + (r + 1) * n, [](float p) { return p == 0; });
  return of_ == Of::key ? empty * n : empty;
}

}  // namespace

AttentionVariant gmm_attention() { return variant<PriorAttention>(PriorAttention::Of::key); }
AttentionVariant fiak_attention() { return variant<PriorAttention>(PriorAttention::Of::pair); }

}  // namespace hg::nn
