// Attention by features, fused: per (image, head) o_i = f_i^T S / max(f_i.z, floor) with
// S = sum_j g_j v_j^T and z = sum_j g_j. Nothing of N x M ever exists.
// f [B, N, H F], g [B, M, H F], v [B, M, H D] -> o [B, N, H D].
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

// outputs o and, for the gradient, S [B, H, F, D] and, where there is a denominator, z [B, H, F]
// and f.z [B, H, N]; parts of the cost, as backward: kv, norm, qs
class LinearAttention final : public OpOf<LinearAttention> {
 public:
  static constexpr double kNoDenominator = -1;  // as floor: o_i = f_i^T S
  LinearAttention(std::int64_t heads, double floor) : heads(heads), floor(floor) {}
  HG_DECLARE_DIFFERENTIABLE_OP("linear_attention");
  Indices auxiliary_outputs() const override { return {1, 2, 3}; }

  bool normalised() const { return floor >= 0; }
  const std::int64_t heads;
  const double floor;
};

// inputs do, the forward's inputs and outputs; outputs df, dg, dv
class LinearAttentionBackward final : public GradientOp<LinearAttentionBackward> {
 public:
  explicit LinearAttentionBackward(const LinearAttention& forward) : forward(forward) {}
  HG_DECLARE_OP("linear_attention_backward");

  const LinearAttention forward;
};

}  // namespace ops

// f [B, N, H F], g [B, M, H F], v [B, M, H D] -> [B, N, H D]; without a floor there is no
// denominator.
inline Tensor linear_attention(const Tensor& f, const Tensor& g, const Tensor& v,
                               std::int64_t heads,
                               double floor = ops::LinearAttention::kNoDenominator) {
  return run_one(ops::LinearAttention(heads, floor), {f, g, v});
}

}  // namespace hg
