// patchify cuts images into square patches, unpatchify joins them again: each is the other's
// gradient. Patches in raster order, the pixels of one by (channel, row, column).
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

// [B,C,H,W] -> [B, (H/p)(W/p), C p p]
class Patchify final : public OpOf<Patchify> {
 public:
  explicit Patchify(std::int64_t patch) : patch(patch) {}
  HG_DECLARE_DIFFERENTIABLE_OP("patchify");
  Saved saved() const override { return {.in = {}, .out = {}}; }

  const std::int64_t patch;
};

// Only the patches named by keep: [B,C,H,W], keep i64 [B,k] -> [B, k, C p p]
class PatchifyKept final : public OpOf<PatchifyKept> {
 public:
  explicit PatchifyKept(std::int64_t patch) : patch(patch) {}
  HG_DECLARE_DIFFERENTIABLE_OP("patchify_kept");
  Saved saved() const override { return {.in = {1}, .out = {}}; }

  const std::int64_t patch;
};

// [B, (H/p)(W/p), C p p] -> [B,C,H,W]
class Unpatchify final : public OpOf<Unpatchify> {
 public:
  Unpatchify(std::int64_t patch, std::int64_t channels, std::int64_t height, std::int64_t width)
      : patch(patch), channels(channels), height(height), width(width) {}
  HG_DECLARE_DIFFERENTIABLE_OP("unpatchify");
  Saved saved() const override { return {.in = {}, .out = {}}; }

  const std::int64_t patch, channels, height, width;
};

}  // namespace ops

// [B, C, H, W] -> [B, (H/p)(W/p), C p p]; with keep i64 [B, k] those patches alone
inline Tensor patchify(const Tensor& images, std::int64_t patch) {
  return run_one(ops::Patchify(patch), {images});
}
inline Tensor patchify(const Tensor& images, std::int64_t patch, const Tensor& keep) {
  return run_one(ops::PatchifyKept(patch), {images, keep});
}
// The other way round.
inline Tensor unpatchify(const Tensor& patches, std::int64_t patch, std::int64_t channels,
                         std::int64_t height, std::int64_t width) {
  return run_one(ops::Unpatchify(patch, channels, height, width), {patches});
}

}  // namespace hg
