#include "nn/block.h"

#include "tensor/observer.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/gather.h"

namespace hg::nn {

Block::Block(const Builder& parent, const std::string& name, const AttentionOptions& attention,
             std::int64_t mlp_hidden)
    : name_(name),
      norm1_(parent.child(name), "norm1", attention.width),
      attention_(make_attention(parent.child(name), attention)),
      norm2_(parent.child(name), "norm2", attention.width),
      mlp_(parent.child(name), attention.width, mlp_hidden, attention.dropout) {}

Tensor Block::operator()(const Tensor& x, const Context& context, const Tensor& ids,
                         const Tensor& asking) const {
  const Scope scope(name_);
  const bool attends = attention_->options().gate != AttentionOptions::Gate::layer;
  const Tensor own = asking.defined() ? gather_rows(x, asking) : x;
  const Tensor attended = attends ? add(own, (*attention_)(norm1_(x), context, ids, asking)) : own;
  return add(attended, mlp_(norm2_(attended), context));
}

MergedTokens Block::merging(const MergedTokens& tokens, const Context& context,
                            MergeOptions::Method method, std::int64_t left,
                            const Tensor& asking) const {
  const Scope scope(name_);
  const Attention::Weighed attended =
      attention_->weighed(norm1_(tokens.x), tokens.sizes, context, asking);
  const Tensor own = asking.defined() ? gather_rows(tokens.x, asking) : tokens.x;
  MergedTokens after{add(own, attended.out), tokens.sizes};
  if (!asking.defined() && left < tokens.x.dim(1) - 1)
    after = merged(method, after, attended.keys, left);
  return {add(after.x, mlp_(norm2_(after.x), context)), after.sizes};
}

}  // namespace hg::nn
