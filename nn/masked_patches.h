// Learning from images without labels (nn/METHODS.md, section 5): some patches are hidden, and the
// model predicts their pixels from the rest.
#pragma once

#include "nn/vit.h"

namespace hg::nn {

// Which of each image's k patches are hidden: their rows among the k, in increasing order.
struct PatchMask {
  Tensor masked, visible;  // i64 [B, m] and [B, k-m]
};

struct MaskedPatchOptions {
  // token: hidden patches become a learned token before positions are added, and one linear layer
  // reads the encoder's output. drop: the encoder never sees them; a decoder of a few blocks does.
  enum class Mode { token, drop };
  Mode mode = Mode::token;
  std::int64_t width = 0, depth = 1;  // of the decoder (drop)
};

class MaskedPatches {
 public:
  // Adds parameters to the model: mask_token [1,1,E], decoder.weight [C p p, E] and decoder.bias;
  // with drop, where E is the decoder's width, also decoder.embed.{weight,bias},
  // decoder.pos_embed [1, n+1, E], decoder.blocks.I.*, decoder.norm.*
  MaskedPatches(Vit& model, const MaskedPatchOptions& options);

  // images and keep as for Vit::logits() -> the encoder's output [B, N, E]
  Tensor encode(const Tensor& images, const Tensor& keep, const PatchMask& mask,
                const Context& context) const;
  // The encoder's output -> pixels of the masked patches alone: [B, m, C p p]
  Tensor decode(const Tensor& encoded, const Tensor& keep, const PatchMask& mask,
                const Context& context) const;

 private:
  Tensor with_tokens(const Tensor& visible, const PatchMask& mask) const;
  Tensor decode_dropped(const Tensor& encoded, const Tensor& keep, const PatchMask& mask,
                        const Context& context) const;

  struct Decoder {  // of mode drop
    Decoder(const Builder& root, const Vit& model, const MaskedPatchOptions& options);
    Linear embed;
    Tensor pos_embed;
    std::vector<Block> blocks;
    LayerNorm norm;
  };

  const Vit& model_;
  Tensor mask_token_;
  std::unique_ptr<const Decoder> decoder_;  // none with mode token
  Linear head_;
};

// Pixels [B, m, C p p] of the masked patches of normalised images. With per_patch each patch is
// standardised: (x - mean) / sqrt(var + 1e-6), var unbiased.
Tensor masked_pixels(const Tensor& images, const Tensor& keep, const PatchMask& mask,
                     std::int64_t patch, bool per_patch);

// Mean squared (or absolute) error, times `share`.
Tensor pixel_loss(const Tensor& predicted, const Tensor& target, bool absolute, double share);

}  // namespace hg::nn
