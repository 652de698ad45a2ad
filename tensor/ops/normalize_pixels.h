// From 8-bit images to a model's input: y = scale[c] x + bias[c], images u8 [B,C,H,W], norm [2,C]
// with the scales before the biases. Images are kept and moved as bytes until then.
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

class NormalizePixels final : public NonDifferentiable<NormalizePixels> {
 public:
  static constexpr std::string_view kNotDifferentiable = "bytes have no gradient";
  HG_DECLARE_OP("normalize_pixels");
};

}  // namespace ops

// images u8 [B, C, H, W], norm f32 [2, C] -> f32 [B, C, H, W]
inline Tensor normalize_pixels(const Tensor& images, const Tensor& norm) {
  return run_one(ops::NormalizePixels(), {images, norm});
}

}  // namespace hg
