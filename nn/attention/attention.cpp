#include "nn/attention/attention.h"

#include <cmath>
#include <numeric>

#include "tensor/observer.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/reduce.h"

namespace hg::nn {
namespace {

// 0 .. n-1, or undefined for the whole sequence.
Tensor leading_ids(std::int64_t n, std::int64_t tokens) {
  require(n <= tokens, "attention", "{} tokens for {} positions", n, tokens);
  if (n == tokens) return {};
  const Tensor ids = Tensor::empty({n}, DType::i64);
  std::iota(ids.data<std::int64_t>(), ids.data<std::int64_t>() + n, 0);
  return ids;
}

}  // namespace

Attention::Attention(const Builder& parent, const AttentionOptions& o)
    : options_(o),
      qkv_(parent.child("attn"), "qkv", o.width, 3 * o.inner(), o.qkv_bias),
      proj_(parent.child("attn"), "proj", o.inner(), o.width) {}

Tensor Attention::operator()(const Tensor& x, const Context& context, const Tensor& ids) const {
  const Scope scope("attn");
  const Tensor positions = ids.defined() ? ids : leading_ids(x.dim(1), options_.tokens);
  return project_out(mixed(x, context, positions), context);
}

Tensor Attention::mix(const Tensor&, const Tensor&, const Context&, const Tensor&) const {
  fail("attention", "\"{}\" has no core of its own", options_.variant);
}

Tensor Attention::project_out(const Tensor& mixed, const Context& context) const {
  return context.dropout(proj_(mixed), options_.dropout);
}

QuadraticOptions Attention::quadratic(const Context& context, const Tensor& x,
                                      std::int64_t keys) const {
  QuadraticOptions o;
  o.heads = options_.heads;
  if (!context.random || options_.weight_dropout == 0) return o;
  o.dropout = options_.weight_dropout;
  o.key = context.random->key();
  o.first =
      context.random->take(static_cast<std::uint64_t>(x.dim(0) * options_.heads * x.dim(1) * keys));
  return o;
}

Tensor Attention::attend(QuadraticOptions options, In inputs, const Context& context,
                         bool likely) const {
  options.likelihood = likely && context.wants_likelihood();
  const Tensors out = quadratic_attention(options, inputs);
  if (options.likelihood) {
    const auto keys = static_cast<double>(options.apart ? inputs[1].dim(1) : inputs[0].dim(1));
    context.record->likelihood.push_back(
        add(mean_all(out[1]), Tensor::full({1}, -std::log(keys), out[1].dtype())));
  }
  if (options.responsibilities) context.record->statistics.push_back({this, {out[2]}});
  return out[0];
}

}  // namespace hg::nn
