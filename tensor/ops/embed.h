// The token sequence of a ViT: the class token, then the patches, each plus its position's
// embedding. patches [B, n, E], cls [1, 1, E], positions [1, n+1, E] -> [B, n+1, E].
// Where only some patches were kept, patches [B, k, E] come with keep i64 [B, k], the index of
// each: patch i has position i+1, and the sequence is [B, k+1, E].
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

class EmbedTokens final : public OpOf<EmbedTokens> {
 public:
  HG_DECLARE_DIFFERENTIABLE_OP("embed_tokens");
  Saved saved() const override { return {.in = {3}, .out = {}}; }
};

// inputs dy [B, n+1, E] and perhaps keep; outputs dpatches, dcls, dpositions [1, positions, E]
class EmbedTokensBackward final : public GradientOp<EmbedTokensBackward> {
 public:
  explicit EmbedTokensBackward(std::int64_t positions) : positions(positions) {}
  HG_DECLARE_OP("embed_tokens_backward");

  const std::int64_t positions;
};

}  // namespace ops

// keep undefined: all patches
inline Tensor embed_tokens(const Tensor& patches, const Tensor& cls, const Tensor& positions,
                           const Tensor& keep = {}) {
  if (!keep.defined()) return run_one(ops::EmbedTokens(), {patches, cls, positions});
  return run_one(ops::EmbedTokens(), {patches, cls, positions, keep});
}

}  // namespace hg
