#include "data/image_draw.h"

#include <algorithm>
#include <cmath>

#include "tensor/base/error.h"

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace hg {
namespace {

constexpr std::uint8_t kGreen[3] = {0, 255, 0};
constexpr int kSidePerPixel = 160;  // lines get a pixel thicker for each so many of the side

struct PixelRange {
  int first, last;  // both included
};

// The pixels of 0 .. extent-1 that low .. high touches, at least one.
PixelRange touched(float low, float high, int extent) {
  const auto within = [&](float v) {
    return static_cast<int>(std::clamp(v, 0.0f, static_cast<float>(extent - 1)));
  };
  const int first = within(std::floor(low));
  return {first, std::max(first, within(std::ceil(high) - 1))};
}

}  // namespace

void draw_box(Image& image, const Box& box) {
  require(image.height > 0 && image.width > 0, "draw_box", "an image of {}x{} pixels", image.width,
          image.height);
  const PixelRange x = touched(box.x0, box.x1, image.width);
  const PixelRange y = touched(box.y0, box.y1, image.height);
  const int line = 1 + std::min(image.height, image.width) / kSidePerPixel;
  const auto inside = [line](int at, const PixelRange& range) {
    return at >= range.first + line && at <= range.last - line;
  };
  for (int c = 0; c < image.channels; ++c)
    for (int j = y.first; j <= y.last; ++j)
      for (int i = x.first; i <= x.last; ++i)
        if (!inside(i, x) || !inside(j, y))
          image.row(c, j)[i] = kGreen[image.channels == 3 ? c : 1];
}

Bytes encode_png(const Image& image) {
  require(image.channels == 1 || image.channels == 3, "png", "{} channels, expected 1 or 3",
          image.channels);
  Bytes interleaved(image.pixels.size());
  const auto channels = static_cast<std::size_t>(image.channels);
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t i = 0; i < image.plane(); ++i)
      interleaved[i * channels + c] = image.pixels[c * image.plane() + i];
  Bytes file;
  const auto append = [](void* to, void* data, int size) {
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    auto& all = *static_cast<Bytes*>(to);
    all.insert(all.end(), bytes, bytes + size);
  };
  const int written = stbi_write_png_to_func(append, &file, image.width, image.height,
                                             image.channels, interleaved.data(), 0);
  require(written != 0 && !file.empty(), "png", "cannot encode an image of {}x{} pixels",
          image.width, image.height);
  return file;
}

}  // namespace hg
