#include "nn/masked_patches.h"

#include <cmath>

#include "nn/attention/positions.h"
#include "tensor/observer.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/layer_norm.h"
#include "tensor/ops/patchify.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/unary.h"
#include "tensor/transfer.h"

namespace hg::nn {
namespace {

std::int64_t pixels_of_patch(const VitOptions& o) {
  return o.channels * o.patch_size * o.patch_size;
}

// Of patches that are already cut out, those at rows; images as they are, to be cut later.
Tensor picked(const Tensor& images, const Tensor& rows) {
  return images.rank() == 3 ? gather_rows(images, rows) : images;
}

Tensor plus(const Tensor& rows, std::int64_t offset) {
  const Tensor out = Tensor::empty(rows.shape(), DType::i64), here = on_host(rows);
  for (std::int64_t i = 0; i < rows.numel(); ++i)
    out.data<std::int64_t>()[i] = here.data<std::int64_t>()[i] + offset;
  return to_device(out, rows.device());
}

// One token [1,1,E] as n tokens of every image: [B, n, E]
Tensor repeated(const Tensor& token, std::int64_t batch, std::int64_t n) {
  return gather_rows(reshape(token, {1, -1}),
                     Tensor::full({batch, n}, 0, DType::i64, token.device()));
}

// For each of the k patches its row in a table of the visible patches, with the mask token last.
Tensor rows_in_table(const PatchMask& mask) {
  const std::int64_t batch = mask.masked.dim(0), m = mask.masked.dim(1), v = mask.visible.dim(1);
  const Tensor rows = Tensor::full({batch, m + v}, static_cast<double>(v), DType::i64),
               visible = on_host(mask.visible);
  for (std::int64_t i = 0; i < visible.numel(); ++i)
    rows.data<std::int64_t>()[i / v * (m + v) + visible.data<std::int64_t>()[i]] = i % v;
  return to_device(rows, mask.masked.device());
}

// The decoder's sequence: class token, visible patches, masked ones.
Tensor decoder_ids(const Tensor& keep, const PatchMask& mask) {
  return token_positions({positions_at(keep, mask.visible), positions_at(keep, mask.masked)});
}

Tensor last_rows(const Tensor& x, std::int64_t count) {
  const std::int64_t batch = x.dim(0), first = x.dim(1) - count;
  const Tensor rows = Tensor::empty({batch, count}, DType::i64);
  for (std::int64_t i = 0; i < rows.numel(); ++i) rows.data<std::int64_t>()[i] = first + i % count;
  return gather_rows(x, to_device(rows, x.device()));
}

VitOptions decoder_options(VitOptions o, const MaskedPatchOptions& options) {
  o.width = options.width;
  o.dim_head = (options.width + o.heads - 1) / o.heads;
  o.depth = options.depth;
  o.attention = {};
  o.supports.clear();
  return o;
}

std::int64_t token_width(const Vit& model, const MaskedPatchOptions& o) {
  return o.mode == MaskedPatchOptions::Mode::drop ? o.width : model.options().width;
}

}  // namespace

MaskedPatches::Decoder::Decoder(const Builder& root, const Vit& model, const MaskedPatchOptions& o)
    : embed(root.child("decoder"), "embed", model.options().width, o.width),
      pos_embed(root.child("decoder").make("pos_embed", {1, model.options().patches() + 1, o.width},
                                           position_init(model.options()), false)),
      blocks(make_blocks(root.child("decoder"), decoder_options(model.options(), o))),
      norm(root.child("decoder"), "norm", o.width) {}

MaskedPatches::MaskedPatches(Vit& model, const MaskedPatchOptions& o)
    : model_(model),
      mask_token_(model.heads().make("mask_token", {1, 1, token_width(model, o)},
                                     Init::normal(0.02), false)),
      decoder_(o.mode == MaskedPatchOptions::Mode::drop
                   ? std::make_unique<const Decoder>(model.heads(), model, o)
                   : nullptr),
      head_(Linear::head(model.heads(), "decoder", token_width(model, o),
                         pixels_of_patch(model.options()))) {}

Tensor MaskedPatches::encode(const Tensor& images, const Tensor& keep, const PatchMask& mask,
                             const Context& context) const {
  const Tensor seen = positions_at(keep, mask.visible);
  const Tensor kept = decoder_ ? seen : keep;
  const Tensor patches =
      seen.dim(1) == 0 ? Tensor() : model_.embed(picked(images, mask.visible), seen);
  const Tensor x = model_.sequence(decoder_ ? patches : with_tokens(patches, mask), context, kept);
  return model_.encode(x, context, model_.token_ids(kept), 0, model_.options().depth);
}

// Makes the table [visible patches, mask token] and takes each patch's row, which restores order.
Tensor MaskedPatches::with_tokens(const Tensor& visible, const PatchMask& mask) const {
  const Scope scope("mask");
  const Tensor token = repeated(mask_token_, mask.masked.dim(0), 1);
  const Tensor both[] = {visible, token};
  return gather_rows(visible.defined() ? concat(both, 1) : token, rows_in_table(mask));
}

Tensor MaskedPatches::decode(const Tensor& encoded, const Tensor& keep, const PatchMask& mask,
                             const Context& context) const {
  if (decoder_) return decode_dropped(encoded, keep, mask, context);
  return head_(model_.normed(gather_rows(encoded, plus(mask.masked, 1))));
}

Tensor MaskedPatches::decode_dropped(const Tensor& encoded, const Tensor& keep,
                                     const PatchMask& mask, const Context& context) const {
  const std::int64_t m = mask.masked.dim(1);
  const Tensor normed = model_.normed(encoded);
  Tensor x;
  {
    const Scope scope("decoder");
    const Tensor both[] = {decoder_->embed(normed), repeated(mask_token_, encoded.dim(0), m)};
    const Tensor table = reshape(decoder_->pos_embed, {-1, decoder_->pos_embed.dim(2)});
    x = add(concat(both, 1), gather_rows(table, decoder_ids(keep, mask)));
    for (const Block& block : decoder_->blocks) x = block(x, context);
    x = decoder_->norm(last_rows(x, m));
  }
  return head_(x);
}

// A layer norm has the biased variance v = var (n-1)/n, so with r = (n-1)/n:
// (x - mean) / sqrt(var + e) = sqrt(r) (x - mean) / sqrt(v + r e)
Tensor masked_pixels(const Tensor& images, const Tensor& keep, const PatchMask& mask,
                     std::int64_t patch, bool per_patch) {
  const Scope scope("mask");
  const Tensor pixels = images.rank() == 3
                            ? gather_rows(images, mask.masked)
                            : patchify(images, patch, positions_at(keep, mask.masked));
  if (!per_patch) return pixels;
  const std::int64_t n = pixels.dim(2);
  require(n > 1, "masked_pixels", "a patch of one pixel has no deviation");
  const double r = static_cast<double>(n - 1) / static_cast<double>(n);
  return layer_norm(pixels, Tensor::full({n}, std::sqrt(r), pixels.dtype(), pixels.device()),
                    Tensor::zeros({n}, pixels.dtype(), pixels.device()), r * 1e-6);
}

Tensor pixel_loss(const Tensor& predicted, const Tensor& target, bool absolute, double share) {
  const Scope scope("loss");
  const Tensor error = sub(predicted, target);
  return scale(mean_all(absolute ? abs(error) : square(error)), share);
}

}  // namespace hg::nn
