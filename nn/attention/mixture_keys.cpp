#include "nn/attention/mixture_keys.h"

#include "nn/attention/positions.h"
#include "tensor/ops/broadcast.h"
#include "tensor/ops/softmax.h"
#include "tensor/ops/unary.h"

namespace hg::nn {
namespace {

using PiShape = AttentionOptions::PiShape;

Shape pi_shape(const AttentionOptions& o) {
  switch (o.pi_shape) {
    case PiShape::layer:
      return {o.components};
    case PiShape::head:
      return {o.heads, o.components};
    case PiShape::head_pos:
      return {o.heads, o.tokens, o.components};
  }
  return {};
}

}  // namespace

MixtureKeys::MixtureKeys(const Builder& attention, const AttentionOptions& o) : options_(o) {
  Builder self = attention;
  const std::int64_t extra = o.components - 1;
  if (o.shift_keys && extra > 0)
    shift_ = self.make("shift", {extra, o.heads, o.dim_head}, Init::normal(0.5));
  for (std::int64_t r = 2; r <= o.components && !o.shift_keys; ++r)
    projections_.emplace_back(attention, fmt::format("k{}", r), o.width, o.inner(), o.qkv_bias);
  const double even = 1 / static_cast<double>(o.components);
  if (o.mode == AttentionOptions::Mode::soft_e)
    pi_ = self.make_buffer("pi", pi_shape(o), Init::constant(even));
  else
    pi_ = self.make("pi", pi_shape(o),
                    Init::constant(o.pi_param == AttentionOptions::PiParam::softmax ? 0 : even),
                    false);
}

Tensors MixtureKeys::extra(const Tensor& x, const Tensor& qkv) const {
  Tensors keys;
  for (const Linear& projection : projections_) keys.push_back(projection(x));
  if (!shift_.defined()) return keys;
  const Tensor first = split_qkv(qkv)[1];
  for (std::int64_t r = 0; r < shift_.dim(0); ++r)
    keys.push_back(add_leading(first, reshape(slice(shift_, r, r + 1), {options_.inner()})));
  return keys;
}

Tensor MixtureKeys::priors() const {
  const AttentionOptions& o = options_;
  Tensor p = pi_;
  if (o.mode != AttentionOptions::Mode::soft_e)
    p = o.pi_param == AttentionOptions::PiParam::softmax ? softmax(pi_) : clamp(pi_, 0, 1);
  return reshape(p, {o.pi_shape == PiShape::layer ? 1 : o.heads, 1,
                     o.pi_shape == PiShape::head_pos ? o.tokens : 1, o.components});
}

}  // namespace hg::nn
