// Image -> patch tokens: the C p p pixels of a patch times W [E, C, p, p] plus bias.
#pragma once

#include "nn/layers/parameter.h"

namespace hg::nn {

class PatchEmbed {
 public:
  PatchEmbed(const Builder& parent, std::int64_t channels, std::int64_t patch, std::int64_t width);
  // images [B, C, H, W] -> [B, n, E]; with keep [B, k], of those patches alone -> [B, k, E].
  // Patches [B, k, C p p] that were taken out of their images before are embedded as they are.
  Tensor operator()(const Tensor& images, const Tensor& keep = {}) const;

 private:
  std::int64_t patch_;
  Tensor weight_, bias_;
};

}  // namespace hg::nn
