// Softmax attention, fused: o = softmax(q k^T / sqrt(D)) v per (image, head). Only a block of score
// rows exists at a time; the rows' logsumexp is kept, and the gradient recomputes the scores.
// Inputs: qkv [B, N, 3 H D] as a linear wrote it -> o [B, N, H D];
//     or: q [B, H, N, D], k and v [B, H, M, D]  -> o [B, H, N, D].
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

// outputs o, and lse [B, H, N] for the gradient; parts of the cost, as backward: qk, softmax, av
class Attention final : public OpOf<Attention> {
 public:
  explicit Attention(std::int64_t heads) : heads(heads) {}  // 0: q, k and v come apart
  HG_DECLARE_DIFFERENTIABLE_OP("attention");
  Indices auxiliary_outputs() const override { return {1}; }

  const std::int64_t heads;
};

// inputs do, o, lse, then the forward's inputs; outputs their gradients
class AttentionBackward final : public GradientOp<AttentionBackward> {
 public:
  explicit AttentionBackward(std::int64_t heads) : heads(heads) {}
  HG_DECLARE_OP("attention_backward");

  const std::int64_t heads;
};

}  // namespace ops

// qkv [B, N, 3 H D] -> [B, N, H D]
inline Tensor attention(const Tensor& qkv, std::int64_t heads) {
  require(heads > 0, "attention", "{} heads", heads);
  return run_one(ops::Attention(heads), {qkv});
}
// q [B, H, N, D], k and v [B, H, M, D] -> [B, H, N, D]
inline Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  return run_one(ops::Attention(0), {q, k, v});
}

}  // namespace hg
