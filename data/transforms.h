// From a data set's image to a model's input: size, channels, augmentation, normalisation. Boxes go
// with their image.
#pragma once

#include <cstdint>
#include <span>

#include "data/dataset.h"
#include "data/resize.h"
#include "tensor/tensor.h"

namespace hg {

// Gray to RGB (copies) and RGB to gray (luminance); any other change of channels throws. `in` and
// `out` must be different images.
void convert_channels(const Image& in, int channels, Image& out);

// Brings images to size x size (each side on its own scale) and `channels`.
class Fit {
 public:
  Fit(int size, int channels) : size_(size), channels_(channels) {}
  // `in` itself if it already fits, else this object's own image, valid until the next call.
  const Image& operator()(const Image& in);

 private:
  int size_, channels_;
  Resizer resize_;
  Image resized_, converted_;
};

// A random crop from the image with a black border around it, which is a shift of the image. It may
// be mirrored left to right afterwards.
struct Augmentation {
  int dx = 0, dy = 0;  // pixel (dx, dy), which may lie outside, moves to the top left corner
  bool mirror = false;
};
// Border of a crop: 4 pixels at 32, in proportion at other sizes.
constexpr int crop_border(int size) { return size / 8; }
// Draw number `index` of the stream of `key`.
Augmentation draw_augmentation(std::uint64_t key, std::int64_t index, int size, bool may_mirror);
void augment(const Image& in, const Augmentation& how, std::uint8_t* out);  // out: [C,H,W]

// A box in a square image of side 1, clipped to it; `valid` unless too little of it is left.
struct UnitBox {
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  bool valid = false;
};
// A box of which a crop leaves less takes no part in the box loss (nn/METHODS.md, section 7).
inline constexpr float kLeastVisible = 0.25f;
// Where a box of an image of width x height is after Fit to `size` and augmentation.
UnitBox place_box(const Box& box, int width, int height, int size, const Augmentation& how);

// y = scale * x + bias on 8-bit x, per channel.
class Normalizer {
 public:
  explicit Normalizer(const Normalization& normalization);
  // pixels, out: [C,plane]
  void operator()(const std::uint8_t* pixels, std::size_t plane, float* out) const;
  // The patches `keep` of an image [C,height,width] alone. out: [k, C p p]
  void patches(const std::uint8_t* pixels, std::int64_t height, std::int64_t width,
               std::int64_t patch, std::span<const std::int64_t> keep, float* out) const;

  std::size_t channels() const { return scale_.size(); }
  float scale(std::size_t c) const { return scale_[c]; }
  float bias(std::size_t c) const { return bias_[c]; }
  Tensor as_tensor() const;  // [2,C], the scales before the biases

 private:
  std::vector<float> scale_, bias_;
};

}  // namespace hg
