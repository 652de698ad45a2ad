// softmax: A = softmax(Q K^T / sqrt(D)).
#include <numeric>

#include "nn/attention/positions.h"
#include "nn/attention/variant.h"
#include "tensor/observer.h"
#include "tensor/ops/attention.h"
#include "tensor/transfer.h"

namespace hg::nn {
namespace {

class SoftmaxAttention final : public Attention {
 public:
  using Attention::Attention;
  static AttentionTraits traits(const AttentionOptions&) {
    return {.quadratic = true, .weights = true, .spread = true, .sizes = true};
  }

  Tensor cross(const Tensor& x, const Tensor& memory, const Context& context) const override {
    require(!options_.causal, "attention", "a causal mask has no meaning between two sequences");
    const Scope scope("attn");
    const std::int64_t width = options_.inner();
    const Tensor q = inward_->part(x, 0, width);
    const Tensors qkv{q, inward_->part(memory, width, 2 * width),
                      inward_->part(memory, 2 * width, 3 * width)};
    const HeadSet heads(options_.heads);
    QuadraticOptions o = quadratic(context, {x, {}, heads}, memory.dim(1));
    o.apart = true;
    return project_out(attend(o, qkv, context, false), heads, context);
  }

  Weighed weighed(const Tensor& x, const Tensor& sizes, const Context& context,
                  const Tensor& asking) const override {
    const Scope scope("attn");
    CoreInput core{x, {}, HeadSet(options_.heads)};
    core.asking = asking;
    project_in(core);
    const Tensor keys = with_heads(keys_of(core), options_.heads);
    if (!sizes.defined()) return {project_out(mix(core, context), core.heads, context), keys};
    QuadraticOptions o = quadratic(context, core);
    o.prior = QuadraticOptions::Prior::plain;
    o.ids = true;
    Tensors inputs = core.qkv;
    inputs.push_back(reshape(sizes, {1, 1, sizes.numel(), 1}));
    inputs.push_back(places(sizes));
    return {project_out(attend(o, inputs, context, false), core.heads, context), keys};
  }

 private:
  // Without a gradient; of q, k and v side by side only k is copied.
  static Tensor keys_of(const CoreInput& core) {
    if (core.apart()) return core.qkv[1].detach();
    const std::int64_t batch = core.x.dim(0), n = core.x.dim(1);
    const Tensor rows = Tensor::empty({batch, n}, DType::i64);
    for (std::int64_t i = 0; i < rows.numel(); ++i) rows.data<std::int64_t>()[i] = 3 * (i % n) + 1;
    return gather_rows(reshape(core.qkv[0].detach(), {batch, 3 * n, -1}),
                       to_device(rows, core.x.device()));
  }
  // Where each image's sizes are among those of all.
  static Tensor places(const Tensor& sizes) {
    const Tensor ids = Tensor::empty(sizes.shape(), DType::i64);
    std::iota(ids.data<std::int64_t>(), ids.data<std::int64_t>() + ids.numel(), 0);
    return to_device(ids, sizes.device());
  }

  Tensor mix(const CoreInput& core, const Context& context) const override {
    QuadraticOptions o = quadratic(context, core);
    if (o.dropout == 0 && !options_.causal && !o.apart && !wants_spread(context))
      return attention(core.qkv[0], o.heads);
    o.causal = options_.causal;
    return attend(o, core.qkv, context, false);
  }
};

}  // namespace

AttentionVariant softmax_attention() { return variant<SoftmaxAttention>(); }

}  // namespace hg::nn
