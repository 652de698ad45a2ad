// Pre-norm block: x += Attn(LN(x)), unless a gate takes the layer's attention away; then
// x += MLP(LN(x)).
#pragma once

#include "nn/attention/attention.h"
#include "nn/layers/mlp.h"
#include "nn/layers/norm.h"
#include "nn/merge.h"

namespace hg::nn {

class Block {
 public:
  Block(const Builder& parent, const std::string& name, const AttentionOptions& attention,
        std::int64_t mlp_hidden);
  // ids and asking as for Attention: x [B, N, E] -> the same of all tokens, or of those that ask.
  Tensor operator()(const Tensor& x, const Context& context, const Tensor& ids = {},
                    const Tensor& asking = {}) const;
  // The same of tokens that stand for several; between attention and MLP, merging leaves so many
  // patches. asking: then nothing merges.
  MergedTokens merging(const MergedTokens& tokens, const Context& context,
                       MergeOptions::Method method, std::int64_t left,
                       const Tensor& asking = {}) const;
  const Attention& attention() const { return *attention_; }

 private:
  std::string name_;
  LayerNorm norm1_;
  std::unique_ptr<Attention> attention_;
  LayerNorm norm2_;
  Mlp mlp_;
};

}  // namespace hg::nn
