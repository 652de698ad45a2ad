// mgk: each token has a mixture of M Gaussian keys; a_ij is the mixture's share of token j.
#include <cmath>

#include "nn/attention/mixture_keys.h"
#include "tensor/ops/gather.h"
#include "tensor/ops/permute.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/view.h"
#include "tensor/run.h"
#include "tensor/transfer.h"

namespace hg::nn {
namespace {

using Mode = AttentionOptions::Mode;

class MgkAttention final : public MixtureAttention {
 public:
  using MixtureAttention::MixtureAttention;
  // soft_e: pi becomes the mean responsibility of its component over images and queries, and over
  // heads and tokens where pi has no axis for them.
  void learn(const CachedVector<Tensors>& passes) const override;
  static AttentionTraits traits(const AttentionOptions& o) {
    return {.quadratic = true,
            .weights = true,
            .likelihood = true,
            .spread = true,
            // soft_e learns the priors from the shares of all heads
            .some_heads = o.mode != Mode::soft_e};
  }

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;
  // By position: sums of responsibilities [T, H M], and of how many pairs [T].
  Tensors by_position(const Tensor& responsibilities, const Tensor& ids,
                      std::int64_t queries) const;
};

Tensor MgkAttention::mix(const CoreInput& core, const Context& context) const {
  QuadraticOptions o = quadratic(context, core);
  o.score = QuadraticOptions::Score::rbf;
  o.norm_const = options_.norm_const;
  for (std::size_t r = 0; r < options_.sigma2_scale.size(); ++r)
    o.variance[r] = options_.sigma2_scale[r] * std::sqrt(static_cast<double>(options_.dim_head));
  Tensors inputs = core.qkv;
  for (const Tensor& key : extra_keys(core)) inputs.push_back(key);
  o.extra_keys = static_cast<int>(inputs.size() - core.qkv.size());
  if (options_.mode == Mode::hard_e) {
    o.map = QuadraticOptions::Map::best;
    return attend(o, inputs, context, true);
  }
  o.prior = QuadraticOptions::Prior::plain;
  inputs.push_back(priors(core.heads));
  o.ids = core.ids.defined() && options_.pi_shape == AttentionOptions::PiShape::head_pos;
  if (o.ids) inputs.push_back(core.ids);
  o.responsibilities = options_.mode == Mode::soft_e && context.record;
  const Tensor mixed = attend(o, inputs, context, true);
  if (o.responsibilities) {
    Tensors& values = context.record->statistics.back().values;
    values = by_position(values[0], core.ids, core.queries());
  }
  return mixed;
}

Tensors MgkAttention::by_position(const Tensor& responsibilities, const Tensor& ids,
                                  std::int64_t queries) const {
  const std::int64_t batch = responsibilities.dim(0), n = responsibilities.dim(2);
  const Tensor by_token =  // [B, N, H M]
      reshape(permute(responsibilities, {0, 2, 1, 3}), {batch, n, -1});
  const Tensor counts = Tensor::zeros({options_.tokens});
  float* const count = counts.data<float>();
  const bool per_image = ids.defined() && ids.rank() == 2;
  const Tensor known = ids.defined() ? on_host(ids) : Tensor();
  for (std::int64_t i = 0; i < (per_image ? batch * n : n); ++i)
    count[ids.defined() ? known.data<std::int64_t>()[i] : i] +=
        static_cast<float>(per_image ? queries : batch * queries);
  if (!ids.defined()) return {sum(by_token, 0), counts};
  const ops::ScatterAddRows scatter(options_.tokens, ops::ScatterAddRows::Form::table);
  return {run_one(scatter, {per_image ? by_token : sum(by_token, 0), ids}), counts};
}

void MgkAttention::learn(const CachedVector<Tensors>& passes) const {
  const std::int64_t heads = options_.heads, parts = options_.components;
  const auto shape = options_.pi_shape;
  const bool by_head = shape != AttentionOptions::PiShape::layer;
  const bool by_token = shape == AttentionOptions::PiShape::head_pos;
  const auto size = static_cast<std::size_t>(pi_.numel());
  CachedVector<double> sums(size, 0.0), counts(size, 0.0);
  for (const Tensors& pass : passes) {
    const Tensor weights = on_host(pass[0]);
    for (std::int64_t t = 0; t < options_.tokens; ++t)
      for (std::int64_t i = 0; i < heads * parts; ++i) {
        const std::int64_t group =
            (by_head ? i / parts : 0) * (by_token ? options_.tokens : 1) + (by_token ? t : 0);
        const auto at = static_cast<std::size_t>(group * parts + i % parts);
        sums[at] += weights.data<float>()[t * heads * parts + i];
        counts[at] += pass[1].data<float>()[t];
      }
  }
  edit_on_host(pi_, [&](const Tensor& pi) {
    for (std::size_t i = 0; i < size; ++i)
      if (counts[i] > 0) pi.data<float>()[i] = static_cast<float>(sums[i] / counts[i]);
  });
}

}  // namespace

AttentionVariant mgk_attention() { return variant<MgkAttention>(); }

}  // namespace hg::nn
