#include "nn/attention/mixture_keys.h"

#include "nn/attention/positions.h"
#include "tensor/ops/broadcast.h"
#include "tensor/ops/softmax.h"
#include "tensor/ops/unary.h"

namespace hg::nn {
namespace {

using PiShape = AttentionOptions::PiShape;

Shape pi_shape(const AttentionOptions& o) {
  if (o.pi_shape == PiShape::layer) return {o.components};
  if (o.pi_shape == PiShape::head) return {o.heads, o.components};
  return {o.heads, o.tokens, o.components};
}

}  // namespace

MixtureAttention::MixtureAttention(const Builder& self, const AttentionOptions& o)
    : Attention(self, o) {
  const std::int64_t extra = o.components - 1;
  if (o.shift_keys && extra > 0)
    shift_ = by_head(self.make("shift", {extra, o.heads, o.dim_head}, Init::normal(0.5)), 1);
  for (std::int64_t r = 2; r <= o.components && !o.shift_keys; ++r) {
    projections_.emplace_back(self, fmt::format("k{}", r), o.width, o.inner(), o.qkv_bias);
    by_head(projections_.back().weight());
    by_head(projections_.back().bias());
  }
  const double even = 1 / static_cast<double>(o.components);
  if (o.mode == AttentionOptions::Mode::soft_e)
    pi_ = self.make_buffer("pi", pi_shape(o), Init::constant(even));
  else
    pi_ = self.make("pi", pi_shape(o),
                    Init::constant(o.pi_param == AttentionOptions::PiParam::softmax ? 0 : even),
                    false);
  if (o.pi_shape != PiShape::layer) by_head(pi_);
}

Tensors MixtureAttention::extra_keys(const CoreInput& core) const {
  Tensors keys;
  for (const Linear& projection : projections_)
    keys.push_back(onto_heads(projection, core.x, core.heads));
  if (!shift_.defined()) return keys;
  const Tensor first = core.parts()[1], shifts = core.heads.of(shift_, 1);
  for (std::int64_t r = 0; r < shifts.dim(0); ++r)
    keys.push_back(add_leading(first, reshape(slice(shifts, r, r + 1), {first.dim(2)})));
  return keys;
}

Tensor MixtureAttention::priors(const HeadSet& heads) const {
  const AttentionOptions& o = options_;
  Tensor p = o.pi_shape == PiShape::layer ? pi_ : heads.of(pi_);
  if (o.mode != AttentionOptions::Mode::soft_e)
    p = o.pi_param == AttentionOptions::PiParam::softmax ? softmax(p) : clamp(p, 0, 1);
  return reshape(p, {o.pi_shape == PiShape::layer ? 1 : heads.count(), 1,
                     o.pi_shape == PiShape::head_pos ? o.tokens : 1, o.components});
}

}  // namespace hg::nn
