#include "nn/attention/kerformer.h"

#include <limits>

#include "nn/attention/positions.h"
#include "tensor/observer.h"
#include "tensor/ops/broadcast.h"
#include "tensor/ops/linear.h"
#include "tensor/ops/linear_attention.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/permute.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/scale_axes.h"
#include "tensor/ops/softmax.h"
#include "tensor/ops/unary.h"

namespace hg::nn {
namespace {

constexpr double kLowestQuery = -80;  // below, sigmoid would underflow
constexpr double kFloor = 1e-12;

using Squeeze = AttentionOptions::Squeeze;

}  // namespace

KerformerAttention::KerformerAttention(const Builder& parent, const AttentionOptions& o)
    : Attention(parent, o) {
  if (!o.se) return;
  const std::int64_t hidden = std::max<std::int64_t>(1, o.tokens / o.reduction);
  const Builder se = parent.child("attn").child("se");
  Builder fc1 = se.child("fc1"), fc2 = se.child("fc2");
  weight1_ = fc1.make("weight", {hidden, o.tokens}, Init::normal(0.02));
  bias1_ = fc1.make("bias", {hidden}, Init::constant(0));
  weight2_ = fc2.make("weight", {o.tokens, hidden}, Init::normal(0.02));
  bias2_ = fc2.make("bias", {o.tokens}, Init::constant(0));
}

Tensor KerformerAttention::mix(const Tensor&, const Tensor& qkv, const Context&,
                               const Tensor& ids) const {
  const Tensors parts = split_qkv(qkv);
  const Tensor queries = sigmoid(clamp(parts[0], kLowestQuery, std::numeric_limits<float>::max()));
  const Tensor raw = with_heads(parts[1], options_.heads);
  Tensor keys =
      options_.feature_axis ? softmax(raw) : with_heads(softmax(parts[1], 1), options_.heads);
  if (weight1_.defined()) keys = scale_axes(keys, gates(raw, keys, ids), 0);
  return linear_attention(queries, without_heads(keys), parts[2], options_.heads, kFloor);
}

Tensor KerformerAttention::gates(const Tensor& keys, const Tensor& softmaxed,
                                 const Tensor& ids) const {
  const Scope scope("se");
  const Tensor squeezed = options_.squeeze == Squeeze::mean  ? mean(softmaxed, 3)
                          : options_.squeeze == Squeeze::max ? max(softmaxed, 3)
                                                             : mean(keys, 3);
  const Tensor z = permute(squeezed, {0, 2, 1});  // [B, H, N]
  if (!ids.defined()) {
    const Tensor g = linear(linear(z, weight1_, bias1_), weight2_, bias2_);
    return permute(sigmoid(g), {0, 2, 1});
  }
  const Tensor inward = gather_rows(contiguous(transpose(weight1_)), ids);  // [N, h] or [B, N, h]
  const Tensor outward = gather_rows(weight2_, ids);
  const Tensor hidden = add_leading(matmul(z, inward), bias1_);             // [B, H, h]
  const Tensor g = permute(matmul(hidden, transpose(outward)), {1, 0, 2});  // [H, B, N]
  const Tensor bias = gather_rows(reshape(bias2_, {-1, 1}), ids);
  return permute(sigmoid(add_leading(g, reshape(bias, ids.shape()))), {1, 2, 0});
}

}  // namespace hg::nn
