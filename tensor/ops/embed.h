// The token sequence of a ViT: the class token, then the patches, each plus its position's
// embedding. patches [B, n, E], cls [1, 1, E], positions [1, n+1, E] -> [B, n+1, E].
// Where only some patches were kept, patches [B, k, E] come with keep i64 [B, k], the index of
// each: patch i has position i+1, and the sequence is [B, k+1, E].
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
  HG_CUDA_KERNEL;
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override { return {.in = {3}, .out = {}}; }
  static Samples samples();
};

// inputs dy [B, n+1, E] and perhaps keep; outputs dpatches, dcls, dpositions [1, positions, E]
class EmbedTokensBackward final : public NonDifferentiable<EmbedTokensBackward> {
 public:
  static constexpr std::string_view kNotDifferentiable = kNoSecondDerivative;
  explicit EmbedTokensBackward(std::int64_t positions) : positions(positions) {}

  std::string_view name() const override { return "embed_tokens_backward"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  static Samples samples();

  const std::int64_t positions;
};

}  // namespace ops

// keep undefined: all patches
Tensor embed_tokens(const Tensor& patches, const Tensor& cls, const Tensor& positions,
                    const Tensor& keep = {});

}  // namespace hg
