// The Vision Transformer: patch embedding, class token and positions, blocks, final norm, head.
// Parameter names are timm's.
#pragma once

#include <optional>
#include <span>

#include "nn/block.h"
#include "nn/patch_embed.h"

namespace hg::nn {

struct VitOptions {
  enum class Pool { cls, mean };
  enum class Positions { sincos, normal };
  enum class LastBlock { all, cls };
  std::int64_t channels = 3, img_size = 224, patch_size = 16;
  std::int64_t width = 192, depth = 12, heads = 3, dim_head = 64;
  double mlp_ratio = 4;
  std::int64_t classes = 1000;
  Pool pool = Pool::cls;
  LastBlock last_block = LastBlock::all;  // tokens it computes, where only the class token is read
  double dropout = 0;
  bool qkv_bias = true;
  WeightStart init = WeightStart::width;
  Positions positions = Positions::sincos;
  Device device = Device::cpu;   // where it lives and runs
  bool box_head = false;         // the model also predicts a box
  AttentionOptions attention{};  // the variant and its options; sizes follow from the above
  std::vector<std::shared_ptr<const PairSupport>>
      supports{};                           // fiak_pruned: of each block, or none
  std::vector<std::int64_t> gate_layers{};  // blocks without attention, with that gate
  MergeOptions merge{};                     // of tokens, in each block

  std::int64_t patches() const { return (img_size / patch_size) * (img_size / patch_size); }
};

Init position_init(const VitOptions& options);
std::vector<Block> make_blocks(const Builder& parent, const VitOptions& options);

class Vit {
 public:
  // Initial weights depend on the seed alone. A hollow model has shapes only, for counting.
  Vit(const VitOptions& options, std::uint64_t seed, bool hollow = false, DType dtype = DType::f32);

  // images [B,C,H,W] -> [B, classes]. With keep i64 [B,k], indices in increasing order, only those
  // patches enter the sequence, each at its own position; images may then be just the kept patches
  // [B, k, C p p].
  Tensor logits(const Tensor& images, const Context& context, const Tensor& keep = {}) const;
  // The same up to what the heads read: [B, E].
  Tensor features(const Tensor& images, const Context& context, const Tensor& keep = {}) const;

  // Its pieces, for callers that need what lies between them:
  // images, as above -> embedded patches [B, k, E]
  Tensor embed(const Tensor& images, const Tensor& keep = {}) const;
  // embedded patches -> the sequence [B, k+1, E]: class token in front, positions added, dropout
  Tensor sequence(const Tensor& patches, const Context& context, const Tensor& keep = {}) const;
  // through the blocks first .. last-1; ids: the tokens' positions, from token_ids()
  Tensor encode(Tensor x, const Context& context, const Tensor& ids, std::int64_t first,
                std::int64_t last) const;
  Tensor normed(const Tensor& x) const { return norm_(x); }  // [B, N, E] -> the same, every token
  // through the blocks from `first` on, to what the heads read: [B, N, E] -> normed [B, E]
  Tensor read(const Tensor& x, const Context& context, const Tensor& ids, std::int64_t first) const;
  Tensor classify(const Tensor& pooled) const { return head_(pooled); }  // [B, E] -> [B, classes]
  // [B, E] -> (cx, cy, w, h) [B, 4] as fractions of the image's sides; needs a box head
  Tensor boxes(const Tensor& pooled) const;
  // Positions [B, k+1] of the class token and the kept patches in the whole sequence; undefined if
  // all patches are kept.
  Tensor token_ids(const Tensor& keep) const;

  // For the heads that a training phase adds: their parameters become the model's.
  Builder heads() { return Builder(parameters_); }

  // Called before and after the passes of training step `step`: some layers draw anew before it, or
  // learn from the records of its passes (in their order) after it. Blocks that are `frozen`
  // (empty: none) do neither.
  void begin_step(std::int64_t step, std::span<const char> frozen = {}) const;
  void end_step(std::span<const PassRecord> records, std::span<const char> frozen = {}) const;

  // Whether the heads that work are known before any image is seen.
  bool settled() const;
  // For each of these parameters, the elements that a step may change: not those of heads that do
  // not work, nor those of their gates unless all_gates. Empty: all elements of all parameters.
  std::vector<UpdateRanges> update_ranges(const std::vector<Parameter>& trained,
                                          bool all_gates) const;

  const VitOptions& options() const { return options_; }
  const Parameters& parameters() const { return parameters_; }
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  void check_input(const Tensor& images, const Tensor& keep) const;
  Tensor pooled(const Tensor& x) const;
  Tensor read_merging(const Tensor& x, const Context& context) const;

  VitOptions options_;
  Parameters parameters_;
  Tensor cls_token_, pos_embed_;
  PatchEmbed patch_embed_;
  std::vector<Block> blocks_;
  LayerNorm norm_;
  Linear head_;
  std::optional<Linear> box_head_;
};

}  // namespace hg::nn
