// Softmax attention, fused: o = softmax(q k^T / sqrt(D)) v per (image, head). Only a block of score
// rows exists at a time; the rows' logsumexp is kept, and the gradient recomputes the scores.
// Inputs: qkv [B, N, 3 H D] as a linear wrote it -> o [B, N, H D];
//     or: q [B, H, N, D], k and v [B, H, M, D]  -> o [B, H, N, D].
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

class Attention final : public OpOf<Attention> {
 public:
  explicit Attention(std::int64_t heads) : heads(heads) {}  // 0: q, k and v come apart

  std::string_view name() const override { return "attention"; }
  TensorSpecs infer(In in) const override;       // o, and lse [B, H, N] for the gradient
  CostParts cost(In in, In out) const override;  // parts: qk, softmax, av
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  Tensors grad(const GradArgs& args) const override;
  Indices auxiliary_outputs() const override { return {1}; }
  static Samples samples();

  const std::int64_t heads;
};

// inputs do, o, lse, then the forward's inputs; outputs their gradients
class AttentionBackward final : public NonDifferentiable<AttentionBackward> {
 public:
  static constexpr std::string_view kNotDifferentiable = kNoSecondDerivative;
  explicit AttentionBackward(std::int64_t heads) : heads(heads) {}

  std::string_view name() const override { return "attention_backward"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;  // parts: qk, softmax, av
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  static Samples samples();

  const std::int64_t heads;
};

}  // namespace ops

Tensor attention(const Tensor& qkv, std::int64_t heads);
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace hg
