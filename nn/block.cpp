#include "nn/block.h"

#include "tensor/observer.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/gather.h"

namespace hg::nn {

Block::Block(const Builder& parent, const std::string& name, const AttentionOptions& attention,
             std::int64_t mlp_hidden, double drop_path)
    : name_(name),
      norm1_(parent.child(name), "norm1", attention.width),
      attention_(make_attention(parent.child(name), attention)),
      norm2_(parent.child(name), "norm2", attention.width),
      mlp_(parent.child(name), attention.width, mlp_hidden, attention.dropout),
      drop_path_(drop_path) {}

Tensor Block::operator()(const Tensor& x, const Context& context, const Tensor& ids,
                         const Tensor& asking) const {
  const Scope scope(name_);
  const auto with = [&](const Tensor& before, const Tensor& branch) {
    return add(before, context.drop_path(branch, drop_path_));
  };
  const bool attends = attention_->options().gate != AttentionOptions::Gate::layer;
  const Tensor own = asking.defined() ? gather_rows(x, asking) : x;
  const Tensor attended = attends ? with(own, (*attention_)(norm1_(x), context, ids, asking)) : own;
  return with(attended, mlp_(norm2_(attended), context));
}

}  // namespace hg::nn
