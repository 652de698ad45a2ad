// Image -> patch tokens: the C p p pixels of a patch times W [E, C, p, p] plus bias.
#pragma once

#include "nn/parameter.h"

namespace hg::nn {

class PatchEmbed {
 public:
  PatchEmbed(const Builder& parent, std::int64_t channels, std::int64_t patch, std::int64_t width);
  Tensor operator()(const Tensor& images) const;  // [B, C, H, W] -> [B, n, E]

 private:
  std::int64_t patch_;
  Tensor weight_, bias_;
};

}  // namespace hg::nn
