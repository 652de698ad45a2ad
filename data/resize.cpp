#include "data/resize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tensor/base/error.h"

namespace hg {
namespace {

constexpr int kBits = 32 - 8 - 2;  // of a weight's fraction: products with 8-bit values fit 32
constexpr std::int32_t kHalf = 1 << (kBits - 1);

// Weights are not negative and add up to 1 within their rounding, so sums need no clamping.
std::uint8_t rounded(std::int32_t sum) { return static_cast<std::uint8_t>(sum >> kBits); }

constexpr int kLanes = 64;

// For `width` neighbours at once: the sum over k of weights[k] * from[k * stride].
void weighted_sum(const std::uint8_t* from, std::ptrdiff_t stride, const std::int32_t* weights,
                  int n, int width, std::uint8_t* to) {
  std::int32_t sums[kLanes];
  for (int begin = 0; begin < width; begin += kLanes) {
    const int lanes = std::min(kLanes, width - begin);
    std::fill_n(sums, lanes, kHalf);
    for (int k = 0; k < n; ++k) {
      const std::int32_t w = weights[k];
      const std::uint8_t* row = from + k * stride + begin;
      for (int lane = 0; lane < lanes; ++lane) sums[lane] += w * row[lane];
    }
    std::transform(sums, sums + lanes, to + begin, rounded);
  }
}

// Swaps the bits under `mask` of b with those `shift` higher of a.
void swap_bits(std::uint64_t& a, std::uint64_t& b, int shift, std::uint64_t mask) {
  const std::uint64_t t = (a >> shift ^ b) & mask;
  b ^= t;
  a ^= t << shift;
}

// 8x8 bytes: quarters change places, then quarters of quarters, then single bytes.
void transpose_block(const std::uint8_t* from, std::ptrdiff_t from_stride, std::uint8_t* to,
                     std::ptrdiff_t to_stride) {
  std::uint64_t a[8];
  for (int i = 0; i < 8; ++i) std::memcpy(&a[i], from + i * from_stride, 8);
  for (int i = 0; i < 4; ++i) swap_bits(a[i], a[i + 4], 32, 0x00000000ffffffffu);
  for (const int i : {0, 1, 4, 5}) swap_bits(a[i], a[i + 2], 16, 0x0000ffff0000ffffu);
  for (const int i : {0, 2, 4, 6}) swap_bits(a[i], a[i + 1], 8, 0x00ff00ff00ff00ffu);
  for (int i = 0; i < 8; ++i) std::memcpy(to + i * to_stride, &a[i], 8);
}
static_assert(std::endian::native == std::endian::little);

// from [rows,columns] -> to [columns,rows]
void transpose(const std::uint8_t* from, std::ptrdiff_t from_stride, int rows, int columns,
               std::uint8_t* to, std::ptrdiff_t to_stride) {
  const int whole_rows = rows & ~7, whole_columns = columns & ~7;
  for (int y = 0; y < whole_rows; y += 8)
    for (int x = 0; x < whole_columns; x += 8)
      transpose_block(from + y * from_stride + x, from_stride, to + x * to_stride + y, to_stride);
  for (int y = 0; y < rows; ++y)
    for (int x = y < whole_rows ? whole_columns : 0; x < columns; ++x)
      to[x * to_stride + y] = from[y * from_stride + x];
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

// Takes kLanes rows at a time and transposes them, so that the arithmetic runs along vectors.
void Resizer::along_x(const Image& in, Image& out) {
  const std::int64_t rows = std::int64_t{in.channels} * in.height;
  turned_in_.resize(static_cast<std::size_t>(in.width) * kLanes);
  turned_out_.resize(static_cast<std::size_t>(out.width) * kLanes);
  for (std::int64_t row = 0; row < rows; row += kLanes) {
    const int n = static_cast<int>(std::min<std::int64_t>(kLanes, rows - row));
    transpose(in.pixels.data() + row * in.width, in.width, n, in.width, turned_in_.data(), kLanes);
    for (int j = 0; j < out.width; ++j)
      weighted_sum(turned_in_.data() + std::ptrdiff_t{x_.first[j]} * kLanes, kLanes,
                   x_.weights_of(j), x_.count[j], n,
                   turned_out_.data() + std::ptrdiff_t{j} * kLanes);
    transpose(turned_out_.data(), kLanes, out.width, n, out.pixels.data() + row * out.width,
              out.width);
  }
}

void Resizer::along_y(const Image& in, Image& out) const {
  for (int c = 0; c < in.channels; ++c)
    for (int j = 0; j < out.height; ++j)
      weighted_sum(in.row(c, y_.first[j]), in.width, y_.weights_of(j), y_.count[j], in.width,
                   out.row(c, j));
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
