// Image -> patch tokens: the C p p pixels of a patch times W [E, C, p, p] plus bias.
#pragma once

#include "nn/layers/parameter.h"

namespace hg::nn {

class PatchEmbed {
 public:
  PatchEmbed(const Builder& parent, std::int64_t channels, std::int64_t patch, std::int64_t width);
  // images [B, C, H, W] -> [B, n, E], or of the patches keep [B, k] alone -> [B, k, E].
  // Patches that are already cut out, [B, k, C p p], can stand in place of images.
  Tensor operator()(const Tensor& images, const Tensor& keep = {}) const;

 private:
  std::int64_t patch_;
  Tensor weight_, bias_;
};

}  // namespace hg::nn
