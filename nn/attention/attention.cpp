#include "nn/attention/attention.h"

#include <cmath>
#include <numeric>

#include "nn/attention/positions.h"
#include "tensor/observer.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/broadcast.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/unary.h"
#include "tensor/transfer.h"

namespace hg::nn {
namespace {

using Gate = AttentionOptions::Gate;
using Spread = QuadraticOptions::Spread;

// 0 .. n-1; undefined for the whole sequence.
Tensor leading_ids(std::int64_t n, std::int64_t tokens, Device device) {
  require(n <= tokens, "attention", "{} tokens for {} positions", n, tokens);
  if (n == tokens) return {};
  const Tensor ids = Tensor::empty({n}, DType::i64);
  std::iota(ids.data<std::int64_t>(), ids.data<std::int64_t>() + n, 0);
  return to_device(ids, device);
}

Spread spread_for(const Context& context) {
  if (!context.record) return Spread::none;
  if (context.record->probe != Spread::none) return context.record->probe;
  if (context.wants(Sparsity::entropy)) return Spread::entropy;
  return context.wants(Sparsity::gini) ? Spread::squares : Spread::none;
}

// Mean of H_i / ln N_i over the rows that see N_i > 1 keys; entropy [B, H, N].
Tensor mean_entropy(const Tensor& entropy, std::int64_t keys, bool causal) {
  if (!causal) return scale(mean_all(entropy), 1 / std::log(static_cast<double>(keys)));
  const std::int64_t n = entropy.dim(2);
  const Tensor shares = Tensor::zeros({n}, entropy.dtype());
  dispatch_float(entropy.dtype(), "attention", [&]<class T>() {
    for (std::int64_t i = 1; i < n; ++i)
      shares.data<T>()[i] = static_cast<T>(static_cast<double>(n) / static_cast<double>(n - 1) /
                                           std::log(static_cast<double>(i + 1)));
  });
  return mean_all(mul_leading(entropy, to_device(shares, entropy.device())));
}

void record_spread(PassRecord& record, const Tensor& spread, std::int64_t keys, bool causal) {
  if (record.probe != Spread::none)
    record.probed.push_back({spread, keys});
  else if (record.wants_sparsity == Sparsity::gini)
    record.sparsity.push_back(
        add(scale(mean_all(spread), -1), Tensor::full({1}, 1, spread.dtype(), spread.device())));
  else if (keys > 1)
    record.sparsity.push_back(mean_entropy(spread, keys, causal));
}

}  // namespace

Tensors CoreInput::parts() const { return apart() ? qkv : split_qkv(qkv[0]); }

Attention::Attention(const Builder& self, const AttentionOptions& o, InwardLayer inward)
    : options_(o),
      inward_(Linear(self, inward.name, o.width, inward.parts * o.inner(), o.qkv_bias)),
      proj_(Linear(self, "proj", o.inner(), o.width)) {
  by_head(inward_->weight(), 0, inward.parts);
  by_head(inward_->bias(), 0, inward.parts);
  by_head(proj_->weight(), 1);
  if (o.gate == Gate::head)
    gate_ = std::make_unique<HeadGate>(
        self, HeadGate::Options{o.width, o.heads, o.gate_keep, o.gate_per_batch});
}

const Tensor& Attention::by_head(const Tensor& tensor, int axis, std::int64_t parts) {
  if (tensor.defined()) by_head_.push_back({tensor, axis, parts});
  return tensor;
}

Tensor Attention::operator()(const Tensor& x, const Context& context, const Tensor& ids,
                             const Tensor& asking) const {
  const Scope scope("attn");
  const Tensor positions = ids.defined() ? ids : leading_ids(x.dim(1), options_.tokens, x.device());
  if (asking.defined()) {
    require(options_.gate != Gate::head && options_.gate != Gate::token, "attention",
            "a gate and a caller both choose what is computed");
    return of_some_tokens(x, context, positions, asking);
  }
  if (gate_) return of_some_heads(x, context, positions);
  const std::int64_t patches = x.dim(1) - 1;
  if (options_.gate == Gate::token && kept_of(options_.gate_keep, patches) < patches) {
    const Tensor chosen = asking_tokens(x, options_.gate_keep);
    return scatter_add_rows(of_some_tokens(x, context, positions, chosen), chosen, x.dim(1));
  }
  const HeadSet all(options_.heads);
  return project_out(mixed({x, positions, all}, context), all, context);
}

Tensor Attention::of_some_heads(const Tensor& x, const Context& context, const Tensor& ids) const {
  const Tensor alpha = gate_->alpha(x, context);
  const HeadSet heads = gate_->heads(alpha);
  const Tensor out = mixed({x, ids, heads}, context);
  return project_out(gate_->weigh(out, alpha, heads), heads, context);
}

Tensor Attention::of_some_tokens(const Tensor& x, const Context& context, const Tensor& ids,
                                 const Tensor& asking) const {
  CoreInput core{x, ids, HeadSet(options_.heads)};
  core.asking = asking;
  core.query_ids = positions_at(ids, asking);
  return project_out(mixed(core, context), core.heads, context);
}

void Attention::project_in(CoreInput& core) const {
  const std::int64_t width = options_.inner();
  if (core.apart())
    core.qkv = {inward_->part(gather_rows(core.x, core.asking), 0, width),
                inward_->part(core.x, width, 2 * width),
                inward_->part(core.x, 2 * width, 3 * width)};
  else
    core.qkv = {onto_heads(*inward_, core.x, core.heads, 3)};
}

Tensor Attention::mixed(CoreInput core, const Context& context) const {
  project_in(core);
  return mix(core, context);
}

Tensor Attention::mix(const CoreInput&, const Context&) const {
  fail("attention", "\"{}\" has no core of its own", options_.variant);
}

Tensor Attention::cross(const Tensor&, const Tensor&, const Context&) const {
  fail("attention", "\"{}\" has no form between two sequences", options_.variant);
}

Attention::Weighed Attention::weighed(const Tensor&, const Tensor&, const Context&,
                                      const Tensor&) const {
  fail("attention", "\"{}\" has no form for tokens that stand for several", options_.variant);
}

Tensor Attention::project_out(const Tensor& mixed, const HeadSet& heads,
                              const Context& context) const {
  return context.dropout(proj_ ? from_heads(*proj_, mixed, heads) : mixed, options_.dropout);
}

QuadraticOptions Attention::quadratic(const Context& context, const CoreInput& core,
                                      std::int64_t keys) const {
  QuadraticOptions o;
  o.heads = core.heads.count();
  o.apart = core.apart();
  if (!context.random || options_.weight_dropout == 0) return o;
  o.dropout = options_.weight_dropout;
  o.key = context.random->key();
  o.first = context.random->take(
      static_cast<std::uint64_t>(core.x.dim(0) * o.heads * core.queries() * keys));
  return o;
}

bool Attention::wants_spread(const Context& context) const {
  return spread_for(context) != Spread::none;
}

Tensor Attention::attend(QuadraticOptions options, In inputs, const Context& context,
                         bool likely) const {
  options.likelihood = likely && context.wants_likelihood();
  options.spread = spread_for(context);
  const Tensors out = quadratic_attention(options, inputs);
  const std::int64_t keys = inputs[options.apart ? 1 : 0].dim(1);
  if (options.likelihood)
    context.record->likelihood.push_back(add(
        mean_all(out[1]),
        Tensor::full({1}, -std::log(static_cast<double>(keys)), out[1].dtype(), out[1].device())));
  if (options.spread != Spread::none)
    record_spread(*context.record, out[static_cast<std::size_t>(options.spread_output())], keys,
                  options.causal);
  if (options.responsibilities) context.record->statistics.push_back({this, {out[2]}});
  return out[0];
}

}  // namespace hg::nn
