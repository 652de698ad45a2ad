// kerformer: sigmoid of queries, softmax of keys over tokens or features, and SE-K: gates on
// tokens, computed from a squeeze of all keys by two linear layers that the heads share.
#include <limits>

#include "nn/attention/positions.h"
#include "nn/attention/variant.h"
#include "tensor/observer.h"
#include "tensor/ops/broadcast.h"
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

// Adds b [R], or [.., R], to every column of x [.., R, C].
Tensor add_rows(const Tensor& x, const Tensor& b) {
  if (x.rank() == 2) return permute(add_leading(permute(x, {1, 0}), b), {1, 0});
  const bool own = b.rank() == 2;  // each image its own
  const Tensor rows = permute(x, own ? Shape{2, 0, 1} : Shape{0, 2, 1});
  return permute(add_leading(rows, b), own ? Shape{1, 2, 0} : Shape{0, 2, 1});
}

class KerformerAttention final : public Attention {
 public:
  KerformerAttention(const Builder& self, const AttentionOptions& options);
  static AttentionTraits traits(const AttentionOptions& o) { return {.gates = o.se}; }

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;
  // SE-K gates [B, N, H] of raw keys and of their softmax, both [B, N, H, D].
  Tensor gates(const Tensor& keys, const Tensor& softmaxed, const Tensor& ids) const;

  Tensor weight1_, bias1_, weight2_, bias2_;  // [h, T], [h], [T, h], [T]; undefined without SE-K
};

KerformerAttention::KerformerAttention(const Builder& self, const AttentionOptions& o)
    : Attention(self, o) {
  if (!o.se) return;
  const std::int64_t hidden = std::max<std::int64_t>(1, o.tokens / o.reduction);
  const Builder fc1 = self.child("se").child("fc1"), fc2 = self.child("se").child("fc2");
  weight1_ = fc1.make("weight", {hidden, o.tokens}, Init::normal(0.02));
  bias1_ = fc1.make("bias", {hidden}, Init::constant(0));
  weight2_ = fc2.make("weight", {o.tokens, hidden}, Init::normal(0.02));
  bias2_ = fc2.make("bias", {o.tokens}, Init::constant(0));
}

Tensor KerformerAttention::mix(const CoreInput& core, const Context& context) const {
  const Tensors parts = core.parts();
  const std::int64_t heads = core.heads.count();
  const Tensor queries = sigmoid(clamp(parts[0], kLowestQuery, std::numeric_limits<float>::max()));
  const Tensor raw = with_heads(parts[1], heads);
  Tensor keys = options_.feature_axis ? softmax(raw) : with_heads(softmax(parts[1], 1), heads);
  if (weight1_.defined()) {
    const Tensor on_tokens = gates(raw, keys, core.ids);
    if (context.wants(Sparsity::gate_l1)) context.record->sparsity.push_back(mean_all(on_tokens));
    keys = scale_axes(keys, on_tokens, 0);
  }
  return linear_attention(queries, without_heads(keys), parts[2], heads, kFloor);
}

// Weights stand on the left of products, where they are read in place: with N x N / reduction
// elements they are many times larger than the other factor.
Tensor KerformerAttention::gates(const Tensor& keys, const Tensor& softmaxed,
                                 const Tensor& ids) const {
  const Scope scope("se");
  const Tensor z = options_.squeeze == Squeeze::mean  ? mean(softmaxed, 3)
                   : options_.squeeze == Squeeze::max ? max(softmaxed, 3)
                                                      : mean(keys, 3);  // [B, N, H]
  const std::int64_t batch = z.dim(0), n = z.dim(1), heads = z.dim(2);
  Tensor inward = weight1_, outward = weight2_, bias = bias2_;
  if (ids.defined()) {
    inward = transpose(gather_rows(contiguous(transpose(weight1_)), ids));
    outward = gather_rows(weight2_, ids);
    bias = reshape(gather_rows(reshape(bias2_, {-1, 1}), ids), ids.shape());
  }
  if (ids.defined() && ids.rank() == 2) {                       // each image its own weights
    const Tensor hidden = add_rows(matmul(inward, z), bias1_);  // [B, h, H]
    return sigmoid(add_rows(matmul(outward, hidden), bias));
  }
  const Tensor columns = reshape(permute(z, {1, 0, 2}), {n, batch * heads});
  const Tensor hidden = add_rows(matmul(inward, columns), bias1_);  // [h, B H]
  const Tensor g = sigmoid(add_rows(matmul(outward, hidden), bias));
  return permute(reshape(g, {n, batch, heads}), {1, 0, 2});
}

}  // namespace

AttentionVariant kerformer_attention() { return variant<KerformerAttention>(); }

}  // namespace hg::nn
