#include "data/transforms.h"

#include <algorithm>

#include "tensor/base/error.h"
#include "tensor/random.h"

namespace hg {
namespace {

// An integer below n from 32 random bits; the bias is below n / 2^32.
int below(std::uint32_t bits, int n) {
  return static_cast<int>(std::uint64_t{bits} * static_cast<std::uint64_t>(n) >> 32);
}

void gray_from_rgb(const Image& in, Image& out) {
  const std::uint8_t *r = in.row(0, 0), *g = in.row(1, 0), *b = in.row(2, 0);
  std::uint8_t* gray = out.pixels.data();
  // ITU-R 601 luminance in 16-bit fractions that add up to 1.
  for (std::size_t i = 0; i < in.plane(); ++i)
    gray[i] =
        static_cast<std::uint8_t>((19595u * r[i] + 38470u * g[i] + 7471u * b[i] + 0x8000u) >> 16);
}

// out[x] = in[x + dx] where that exists, else 0.
void shift_row(const std::uint8_t* in, int width, int dx, std::uint8_t* out) {
  const int begin = std::clamp(-dx, 0, width), end = std::clamp(width - dx, begin, width);
  std::fill(out, out + begin, 0);
  std::copy(in + begin + dx, in + end + dx, out + begin);
  std::fill(out + end, out + width, 0);
}

}  // namespace

void convert_channels(const Image& in, int channels, Image& out) {
  require(in.channels == channels || (in.channels == 1 && channels == 3) ||
              (in.channels == 3 && channels == 1),
          "convert_channels", "an image of {} channels to {}, expected gray (1) and RGB (3)",
          in.channels, channels);
  out.reshape(channels, in.height, in.width);
  if (in.channels == 3 && channels == 1) return gray_from_rgb(in, out);
  for (int c = 0; c < channels; ++c)
    std::copy_n(in.row(in.channels == 1 ? 0 : c, 0), in.plane(), out.row(c, 0));
}

const Image& Fit::operator()(const Image& in) {
  const Image* image = &in;
  const auto convert = [&] {
    if (image->channels == channels_) return;
    convert_channels(*image, channels_, converted_);
    image = &converted_;
  };
  if (in.channels > channels_) convert();  // fewer channels to resize
  if (image->height != size_ || image->width != size_) {
    resize_(*image, size_, size_, resized_);
    image = &resized_;
  }
  convert();
  return *image;
}

Augmentation draw_augmentation(std::uint64_t key, std::int64_t index, int size, bool may_mirror) {
  const PhiloxBlock bits = draw_block(key, static_cast<std::uint64_t>(index));
  const int border = crop_border(size);
  return {below(bits[0], 2 * border + 1) - border, below(bits[1], 2 * border + 1) - border,
          may_mirror && (bits[2] >> 31) != 0};
}

void augment(const Image& in, const Augmentation& how, std::uint8_t* out) {
  for (int c = 0; c < in.channels; ++c)
    for (int y = 0; y < in.height; ++y, out += in.width) {
      const int from = y + how.dy;
      if (from < 0 || from >= in.height) {
        std::fill_n(out, in.width, 0);
        continue;
      }
      shift_row(in.row(c, from), in.width, how.dx, out);
      if (how.mirror) std::reverse(out, out + in.width);
    }
}

UnitBox place_box(const Box& box, int width, int height, int size, const Augmentation& how) {
  const float area = box.area() / (static_cast<float>(width) * static_cast<float>(height));
  const auto place = [](float v, int extent, float shift) {
    return std::clamp(v / static_cast<float>(extent) - shift, 0.0f, 1.0f);
  };
  const float dx = static_cast<float>(how.dx) / static_cast<float>(size);
  const float dy = static_cast<float>(how.dy) / static_cast<float>(size);
  UnitBox placed{place(box.x0, width, dx), place(box.y0, height, dy), place(box.x1, width, dx),
                 place(box.y1, height, dy)};
  if (how.mirror) {
    std::swap(placed.x0, placed.x1);
    placed.x0 = 1 - placed.x0;
    placed.x1 = 1 - placed.x1;
  }
  const float left = (placed.x1 - placed.x0) * (placed.y1 - placed.y0);
  placed.valid = left > 0 && left >= kLeastVisible * area;
  return placed;
}

Normalizer::Normalizer(const Normalization& normalization) {
  require(normalization.mean.size() == normalization.stddev.size(), "normalization",
          "{} means, but {} standard deviations", normalization.mean.size(),
          normalization.stddev.size());
  for (std::size_t c = 0; c < normalization.mean.size(); ++c) {
    require(normalization.stddev[c] > 0, "normalization",
            "standard deviation {} of channel {}, expected more than 0", normalization.stddev[c],
            c);
    scale_.push_back(1 / (255 * normalization.stddev[c]));
    bias_.push_back(-normalization.mean[c] / normalization.stddev[c]);
  }
}

Tensor Normalizer::as_tensor() const {
  const Tensor norm = Tensor::empty({2, static_cast<std::int64_t>(channels())});
  std::copy(bias_.begin(), bias_.end(),
            std::copy(scale_.begin(), scale_.end(), norm.data<float>()));
  return norm;
}

void Normalizer::operator()(const std::uint8_t* pixels, std::size_t plane, float* out) const {
  for (std::size_t c = 0; c < scale_.size(); ++c) {
    const float scale = scale_[c], bias = bias_[c];
    std::transform(pixels + c * plane, pixels + (c + 1) * plane, out + c * plane,
                   [=](std::uint8_t v) { return scale * static_cast<float>(v) + bias; });
  }
}

void Normalizer::patches(const std::uint8_t* pixels, std::int64_t height, std::int64_t width,
                         std::int64_t patch, std::span<const std::int64_t> keep, float* out) const {
  const std::int64_t across = width / patch;
  for (const std::int64_t i : keep) {
    const std::uint8_t* corner = pixels + i / across * patch * width + i % across * patch;
    for (std::size_t c = 0; c < scale_.size(); ++c, corner += height * width) {
      const float scale = scale_[c], bias = bias_[c];
      for (std::int64_t y = 0; y < patch; ++y)
        out = std::transform(corner + y * width, corner + y * width + patch, out,
                             [=](std::uint8_t v) { return scale * static_cast<float>(v) + bias; });
    }
  }
}

}  // namespace hg
