// Tokens that merge between attention and MLP of a block (nn/METHODS.md, section 2.17), so that the
// rest of the model works on fewer. The class token stays by itself.
#pragma once

#include <optional>

#include "tensor/tensor.h"

namespace hg::nn {

struct MergeOptions {
  // tome: pairs of similar tokens; pool: clusters
  enum class Method { tome, pool };
  std::optional<Method> method{};    // none: tokens do not merge
  std::int64_t per_block = 0;        // patches that each block takes away
  std::vector<std::int64_t> keep{};  // or: patches that each block leaves, at most

  // How many of so many patches a block leaves. tome takes away at most half of them.
  std::int64_t left_by(std::int64_t block, std::int64_t patches) const;
};

// A sequence of which some tokens stand for several.
struct MergedTokens {
  Tensor x;      // [B, N, E]
  Tensor sizes;  // [B, N]: how many each stands for; undefined: one
};

// keys [B, N, H, D]: what an attention compared the tokens by. `left` patches are left of them, in
// the order of the second token of each pair, or of the middle of each cluster; each is the mean of
// what it stands for. What merges has no gradient; the means have.
MergedTokens merged(MergeOptions::Method method, const MergedTokens& tokens, const Tensor& keys,
                    std::int64_t left);

}  // namespace hg::nn
