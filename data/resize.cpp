#include "data/resize.h"

#include <algorithm>
#include <cmath>

#include "tensor/error.h"

namespace hg {
namespace {

constexpr int kBits = 32 - 8 - 2;  // of a weight's fraction: products of 8-bit values stay in 32
constexpr std::int32_t kHalf = 1 << (kBits - 1);

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kBits, 0, 255));
}

}  // namespace

void Resizer::Filter::prepare(int new_in, int new_out) {
  if (in == new_in && out == new_out) return;
  in = new_in, out = new_out;
  const double scale = static_cast<double>(in) / out;
  const double support = std::max(scale, 1.0);
  taps = static_cast<int>(std::ceil(support)) * 2 + 1;
  first.assign(static_cast<std::size_t>(out), 0);
  count.assign(static_cast<std::size_t>(out), 0);
  weights.assign(static_cast<std::size_t>(out) * taps, 0);
  std::vector<double> w(static_cast<std::size_t>(taps));
  for (int j = 0; j < out; ++j) {
    const double center = (j + 0.5) * scale;
    const int begin = std::max(0, static_cast<int>(center - support + 0.5));
    const int n = std::min(in, static_cast<int>(center + support + 0.5)) - begin;
    double total = 0;
    for (int k = 0; k < n; ++k) {
      w[k] = std::max(0.0, 1 - std::abs((k + begin - center + 0.5) * (1 / support)));
      total += w[k];
    }
    for (int k = 0; k < n; ++k)
      weights[static_cast<std::size_t>(j) * taps + k] =
          static_cast<std::int32_t>(0.5 + w[k] / total * (1 << kBits));
    first[j] = begin, count[j] = n;
  }
}

void Resizer::along_x(const Image& in, Image& out) const {
  for (int c = 0; c < in.channels; ++c)
    for (int y = 0; y < in.height; ++y) {
      const std::uint8_t* from = in.row(c, y);
      std::uint8_t* to = out.row(c, y);
      for (int j = 0; j < out.width; ++j) {
        const std::int32_t* w = x_.weights.data() + static_cast<std::size_t>(j) * x_.taps;
        const std::uint8_t* pixels = from + x_.first[j];
        std::int32_t sum = kHalf;
        for (int k = 0; k < x_.count[j]; ++k) sum += w[k] * pixels[k];
        to[j] = rounded(sum);
      }
    }
}

void Resizer::along_y(const Image& in, Image& out) {
  const int width = in.width;
  sums_.resize(static_cast<std::size_t>(width));
  std::int32_t* const sums = sums_.data();
  for (int c = 0; c < in.channels; ++c)
    for (int j = 0; j < out.height; ++j) {
      std::fill_n(sums, width, kHalf);
      for (int k = 0; k < y_.count[j]; ++k) {
        const std::int32_t w = y_.weights[static_cast<std::size_t>(j) * y_.taps + k];
        const std::uint8_t* from = in.row(c, y_.first[j] + k);
        for (int x = 0; x < width; ++x) sums[x] += w * from[x];
      }
      std::transform(sums, sums + width, out.row(c, j), rounded);
    }
}

void Resizer::operator()(const Image& in, int height, int width, Image& out) {
  require(in.channels > 0 && in.height > 0 && in.width > 0, "resize", "an image of {}x{}x{}",
          in.channels, in.height, in.width);
  require(height > 0 && width > 0, "resize", "to {}x{}, expected 1 or more", height, width);
  out.reshape(in.channels, height, width);
  const bool shape_x = in.width != width, shape_y = in.height != height;
  if (shape_x) x_.prepare(in.width, width);
  if (shape_y) y_.prepare(in.height, height);
  if (shape_x && shape_y) {
    between_.reshape(in.channels, in.height, width);
    along_x(in, between_);
    along_y(between_, out);
  } else if (shape_x) {
    along_x(in, out);
  } else if (shape_y) {
    along_y(in, out);
  } else {
    std::copy(in.pixels.begin(), in.pixels.end(), out.pixels.begin());
  }
}

}  // namespace hg
