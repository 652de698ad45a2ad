// mlk: the linear form of mgk. A token's feature is the mixture sum_r pi_r f(k_r), f = elu + 1.
#include <limits>

#include "nn/attention/mixture_keys.h"
#include "nn/attention/positions.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/linear_attention.h"
#include "tensor/ops/permute.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/scale_axes.h"
#include "tensor/ops/unary.h"

namespace hg::nn {
namespace {

using PiShape = AttentionOptions::PiShape;

class MlkAttention final : public MixtureAttention {
 public:
  using MixtureAttention::MixtureAttention;
  static AttentionTraits traits(const AttentionOptions&) { return {}; }

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;
  Tensor features(const Tensor& x) const;  // [B, N, H, D]
  // x times the priors of that component; priors [M, 1 or T, 1 or H].
  Tensor weighed(const Tensor& x, const Tensor& priors, std::int64_t component,
                 const Tensor& ids) const;
};

Tensor MlkAttention::features(const Tensor& x) const {
  const Tensor f = elu1(with_heads(x, x.dim(2) / options_.dim_head));
  if (!options_.feature_norm) return f;
  // all features of a token may underflow to 0
  const Tensor sums = clamp(sum(f, 3), 1e-12, std::numeric_limits<float>::max());
  return scale_axes(f, div(Tensor::full(sums.shape(), 1, sums.dtype(), sums.device()), sums), 0);
}

Tensor MlkAttention::weighed(const Tensor& x, const Tensor& priors, std::int64_t component,
                             const Tensor& ids) const {
  const Tensor mine = slice(priors, component, component + 1);
  switch (options_.pi_shape) {
    case PiShape::layer:
      return reshape(scale_axes(reshape(x, {1, -1}), reshape(mine, {1}), 0), x.shape());
    case PiShape::head:
      return scale_axes(x, reshape(mine, {x.dim(2)}), 2);
    case PiShape::head_pos: {
      const Tensor at = rows_at(reshape(mine, {options_.tokens, x.dim(2)}), ids);
      return scale_axes(x, at, at.rank() == 3 ? 0 : 1);
    }
  }
  return {};
}

Tensor MlkAttention::mix(const CoreInput& core, const Context&) const {
  const Tensors parts = core.parts();
  Tensors keys{parts[1]};
  for (const Tensor& key : extra_keys(core)) keys.push_back(key);
  const Tensor p = priors(core.heads);  // [1 or H, 1, 1 or T, M]
  const Tensor priors = permute(reshape(p, {p.dim(0), p.dim(2), p.dim(3)}), {2, 1, 0});
  Tensor mixture;
  for (std::size_t r = 0; r < keys.size(); ++r) {
    const Tensor part = weighed(features(keys[r]), priors, static_cast<std::int64_t>(r), core.ids);
    mixture = r == 0 ? part : add(mixture, part);
  }
  return linear_attention(without_heads(features(parts[0])), without_heads(mixture), parts[2],
                          core.heads.count(), 1e-6);
}

}  // namespace

AttentionVariant mlk_attention() { return variant<MlkAttention>(); }

}  // namespace hg::nn
