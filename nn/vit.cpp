#include "nn/vit.h"

#include <algorithm>
#include <cmath>

#include "nn/attention/positions.h"
#include "tensor/observer.h"
#include "tensor/ops/embed.h"
#include "tensor/ops/reduce.h"

namespace hg::nn {
namespace {

const VitOptions& checked(const VitOptions& o) {
  for (const std::int64_t size :
       {o.channels, o.img_size, o.patch_size, o.width, o.depth, o.heads, o.dim_head, o.classes})
    require(size > 0, "vit", "a size of {}", size);
  require(o.img_size % o.patch_size == 0, "vit", "patches of {} don't tile an image of {}",
          o.patch_size, o.img_size);
  require(o.last_block == VitOptions::LastBlock::all || o.pool == VitOptions::Pool::cls, "vit",
          "the mean of all tokens is read, but the last block computes the class token alone");
  require(!o.merge.method || o.pool == VitOptions::Pool::cls, "vit",
          "the mean of all tokens is read, but tokens merge");
  require(o.merge.keep.empty() || static_cast<std::int64_t>(o.merge.keep.size()) == o.depth, "vit",
          "merging leaves {} numbers of patches for {} blocks", o.merge.keep.size(), o.depth);
  return o;
}

// The place of each image's class token: [B, 1].
Tensor class_tokens(const Tensor& x) {
  return Tensor::full({x.dim(0), 1}, 0, DType::i64, x.device());
}

}  // namespace

Init position_init(const VitOptions& o) {
  return o.positions == VitOptions::Positions::sincos ? Init::positions(0.5) : Init::normal(0.02);
}

std::vector<Block> make_blocks(const Builder& root, const VitOptions& o) {
  AttentionOptions attention = o.attention;
  attention.width = o.width;
  attention.heads = o.heads;
  attention.dim_head = o.dim_head;
  attention.tokens = o.patches() + 1;
  attention.qkv_bias = o.qkv_bias;
  attention.dropout = o.dropout;
  const auto hidden = std::max(1LL, std::llround(o.mlp_ratio * static_cast<double>(o.width)));
  std::vector<Block> blocks;
  require(o.supports.empty() || static_cast<std::int64_t>(o.supports.size()) == o.depth, "vit",
          "{} supports for {} blocks", o.supports.size(), o.depth);
  using Gate = AttentionOptions::Gate;
  for (std::int64_t i = 0; i < o.depth; ++i) {
    const bool left_out =
        std::find(o.gate_layers.begin(), o.gate_layers.end(), i) != o.gate_layers.end();
    if (o.attention.gate == Gate::layer) attention.gate = left_out ? Gate::layer : Gate::none;
    attention.layer = i;
    if (!o.supports.empty()) attention.support = o.supports[static_cast<std::size_t>(i)];
    blocks.emplace_back(root, fmt::format("blocks.{}", i), attention, hidden);
  }
  return blocks;
}

Vit::Vit(const VitOptions& o, std::uint64_t seed, bool hollow, DType dtype)
    : options_(checked(o)),
      parameters_(seed, hollow, dtype, o.device, o.init),
      cls_token_(parameters_.make("cls_token", {1, 1, o.width}, Init::normal(0.02), false)),
      pos_embed_(
          parameters_.make("pos_embed", {1, o.patches() + 1, o.width}, position_init(o), false)),
      patch_embed_(Builder(parameters_), o.channels, o.patch_size, o.width),
      blocks_(make_blocks(Builder(parameters_), o)),
      norm_(Builder(parameters_), "norm", o.width),
      head_(Linear::head(Builder(parameters_), "head", o.width, o.classes)) {
  if (o.box_head) box_head_ = Linear::head(Builder(parameters_), "box_head", o.width, 4);
}

void Vit::check_input(const Tensor& images, const Tensor& keep) const {
  const VitOptions& o = options_;
  if (keep.defined())
    require(keep.rank() == 2 && keep.dim(0) == images.dim(0) && keep.dim(1) >= 1 &&
                keep.dim(1) <= o.patches() && keep.dtype() == DType::i64,
            "vit", "expected keep i64[{},1..{}], got {}", images.dim(0), o.patches(), keep);
  if (keep.defined() && images.rank() == 3) {
    const Shape patches{images.dim(0), keep.dim(1), o.channels * o.patch_size * o.patch_size};
    require(images.shape() == patches, "vit", "expected kept patches {}, got {}", patches, images);
    return;
  }
  require(images.rank() == 4 && images.dim(1) == o.channels && images.dim(2) == o.img_size &&
              images.dim(3) == o.img_size,
          "vit", "expected images [B,{0},{1},{1}], got {2}", o.channels, o.img_size, images);
}

Tensor Vit::token_ids(const Tensor& keep) const {
  if (!keep.defined() || keep.dim(1) == options_.patches()) return {};
  return token_positions({keep});
}

Tensor Vit::logits(const Tensor& images, const Context& context, const Tensor& keep) const {
  return classify(features(images, context, keep));
}

Tensor Vit::features(const Tensor& images, const Context& context, const Tensor& keep) const {
  const Tensor x = sequence(embed(images, keep), context, keep);
  return read(x, context, token_ids(keep), 0);
}

Tensor Vit::boxes(const Tensor& pooled) const {
  require(box_head_.has_value(), "vit", "a model without a box head has no boxes");
  return box_head_->with_sigmoid(pooled);
}

Tensor Vit::embed(const Tensor& images, const Tensor& keep) const {
  check_input(images, keep);
  return patch_embed_(images, keep);
}

Tensor Vit::sequence(const Tensor& patches, const Context& context, const Tensor& keep) const {
  return context.dropout(embed_tokens(patches, cls_token_, pos_embed_, keep), options_.dropout);
}

Tensor Vit::encode(Tensor x, const Context& context, const Tensor& ids, std::int64_t first,
                   std::int64_t last) const {
  require(!options_.merge.method, "vit", "a model whose tokens merge is read as a whole");
  for (std::int64_t i = first; i < last; ++i)
    x = blocks_[static_cast<std::size_t>(i)](x, context, ids);
  return x;
}

Tensor Vit::read(const Tensor& x, const Context& context, const Tensor& ids,
                 std::int64_t first) const {
  const std::int64_t last = options_.depth - 1;
  if (options_.merge.method) {
    require(first == 0, "vit", "a model whose tokens merge is read from its first block on");
    return read_merging(x, context);
  }
  if (options_.last_block == VitOptions::LastBlock::all || first > last)
    return pooled(encode(x, context, ids, first, options_.depth));
  const Tensor before = encode(x, context, ids, first, last);
  return pooled(blocks_.back()(before, context, ids, class_tokens(before)));
}

// The last block need not merge where it computes the class token alone.
Tensor Vit::read_merging(const Tensor& x, const Context& context) const {
  MergedTokens tokens{x, {}};
  for (std::int64_t i = 0; i < options_.depth; ++i) {
    const bool cls = i + 1 == options_.depth && options_.last_block == VitOptions::LastBlock::cls;
    const std::int64_t left = options_.merge.left_by(i, tokens.x.dim(1) - 1);
    tokens = blocks_[static_cast<std::size_t>(i)].merging(
        tokens, context, *options_.merge.method, left, cls ? class_tokens(tokens.x) : Tensor());
  }
  return pooled(tokens.x);
}

void Vit::begin_step(std::int64_t step, std::span<const char> frozen) const {
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    if (frozen.empty() || !frozen[i]) blocks_[i].attention().begin_step(step);
}

void Vit::end_step(std::span<const PassRecord> records, std::span<const char> frozen) const {
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (!frozen.empty() && frozen[i]) continue;
    const Attention& attention = blocks_[i].attention();
    for (const Learner* learner :
         {static_cast<const Learner*>(&attention), static_cast<const Learner*>(attention.gate())}) {
      CachedVector<Tensors> passes;
      for (const PassRecord& record : records)
        for (const auto& [from, values] : record.statistics)
          if (from == learner) passes.push_back(values);
      if (!passes.empty()) learner->learn(passes);
    }
  }
}

bool Vit::settled() const {
  return std::all_of(blocks_.begin(), blocks_.end(), [](const Block& block) {
    const HeadGate* const gate = block.attention().gate();
    return !gate || gate->settled();
  });
}

std::vector<UpdateRanges> Vit::update_ranges(const std::vector<Parameter>& trained,
                                             bool all_gates) const {
  std::vector<UpdateRanges> ranges;
  const auto limit = [&](const Tensor& t, const UpdateRanges& part) {
    ranges.resize(trained.size());
    for (std::size_t i = 0; i < trained.size(); ++i)
      if (trained[i].value.id() == t.id()) ranges[i] = part;
  };
  for (const Block& block : blocks_) {
    const HeadGate* const gate = block.attention().gate();
    if (!gate || gate->settled_heads().whole()) continue;
    const HeadSet heads = gate->settled_heads();
    for (const Attention::ByHead& t : block.attention().by_head())
      limit(t.tensor, heads.ranges(t.tensor, t.axis, t.parts));
    if (all_gates) continue;
    limit(gate->weight(), heads.ranges(gate->weight()));
    limit(gate->bias(), heads.ranges(gate->bias()));
  }
  return ranges;
}

// A layer norm treats each token by itself, so the class token can be taken before it.
Tensor Vit::pooled(const Tensor& x) const {
  if (options_.pool == VitOptions::Pool::mean) return mean(norm_(x), 1);
  const Tensor token = x.dim(1) == 1 ? x : gather_rows(x, class_tokens(x));
  return norm_(reshape(token, {x.dim(0), options_.width}));
}

}  // namespace hg::nn
