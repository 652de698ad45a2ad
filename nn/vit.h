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
  std::int64_t channels = 3, img_size = 224, patch_size = 16;
  std::int64_t width = 192, depth = 12, heads = 3, dim_head = 64;
  double mlp_ratio = 4;
  std::int64_t classes = 1000;
  Pool pool = Pool::cls;
  double dropout = 0;
  bool qkv_bias = true;
  Device device = Device::cpu;   // where it lives and runs
  bool box_head = false;         // beside the class, the model gives a box
  AttentionOptions attention{};  // the variant and its options; sizes follow from the above
  std::vector<std::shared_ptr<const PairSupport>>
      supports{};                           // fiak_pruned: of each block, or none
  std::vector<std::int64_t> gate_layers{};  // blocks without attention, with that gate

  std::int64_t patches() const { return (img_size / patch_size) * (img_size / patch_size); }
};

std::vector<Block> make_blocks(const Builder& parent, const VitOptions& options);

class Vit {
 public:
  Vit(const VitOptions& options, std::uint64_t seed, bool hollow = false, DType dtype = DType::f32);

  // images [B,C,H,W] -> [B, classes]. With keep i64 [B,k], indices in increasing order, only those
  // patches enter the sequence, each at its own position; images may then be just the kept patches
  // [B, k, C p p].
  Tensor logits(const Tensor& images, const Context& context, const Tensor& keep = {}) const;
  // The same as far as the heads -> what they read, [B, E].
  Tensor features(const Tensor& images, const Context& context, const Tensor& keep = {}) const;

  // Its pieces, for those who need what lies between them:
  // images, as above -> embedded patches [B, k, E]
  Tensor embed(const Tensor& images, const Tensor& keep = {}) const;
  // embedded patches -> the sequence [B, k+1, E]: class token in front, positions added, dropout
  Tensor sequence(const Tensor& patches, const Context& context, const Tensor& keep = {}) const;
  // through the blocks first .. last-1; ids: the tokens' positions, of token_ids()
  Tensor encode(Tensor x, const Context& context, const Tensor& ids, std::int64_t first,
                std::int64_t last) const;
  Tensor normed(const Tensor& x) const { return norm_(x); }  // [B, N, E] -> the same, every token
  Tensor pooled(const Tensor& x) const;                      // [B, N, E] -> normed [B, E]
  Tensor classify(const Tensor& pooled) const { return head_(pooled); }  // [B, E] -> [B, classes]
  // [B, E] -> (cx, cy, w, h) [B, 4] in parts of the image's side; of a model with a box head
  Tensor boxes(const Tensor& pooled) const;
  // Positions [B, k+1] in the whole sequence of class token and kept patches; undefined where it is
  // whole.
  Tensor token_ids(const Tensor& keep) const;

  // Where a phase of training puts heads of its own beside the model's: they are among its
  // parameters from then on.
  Builder heads() { return Builder(parameters_); }

  // Around the passes of training step `step`: what layers draw anew before it, and what they learn
  // from `records` of its passes, in their order, after it. Blocks that are `frozen` (empty: none)
  // do neither.
  void begin_step(std::int64_t step, std::span<const char> frozen = {}) const;
  void end_step(std::span<const PassRecord> records, std::span<const char> frozen = {}) const;

  // Whether all gates know which heads work without looking at images first.
  bool settled() const;
  // Of each of these parameters, what a step may change: slices of heads that do not work stay as
  // they are, their gates too unless a term of the loss reaches all gates. Empty: everything.
  std::vector<UpdateRanges> update_ranges(const std::vector<Parameter>& trained,
                                          bool all_gates) const;

  const VitOptions& options() const { return options_; }
  const Parameters& parameters() const { return parameters_; }
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  void check_input(const Tensor& images, const Tensor& keep) const;

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
