// The token sequence of a ViT: the class token, then the patches, each plus its position's
// embedding. patches [B, n, E], cls [1, 1, E], positions [1, n+1, E] -> [B, n+1, E]
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

class EmbedTokens final : public OpOf<EmbedTokens> {
 public:
  std::string_view name() const override { return "embed_tokens"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;
  void cpu(In in, Out out) const override;
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override { return {.in = {}, .out = {}}; }
  static Samples samples();
};

// input dy [B, n+1, E]; outputs dpatches, dcls, dpositions
class EmbedTokensBackward final : public NonDifferentiable<EmbedTokensBackward> {
 public:
  static constexpr std::string_view kNotDifferentiable = kNoSecondDerivative;

  std::string_view name() const override { return "embed_tokens_backward"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;
  void cpu(In in, Out out) const override;
  static Samples samples();
};

}  // namespace ops

Tensor embed_tokens(const Tensor& patches, const Tensor& cls, const Tensor& positions);

}  // namespace hg
