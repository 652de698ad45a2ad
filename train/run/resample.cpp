#include "train/run/resample.h"

#include <algorithm>
#include <cmath>

namespace hg {
namespace {

// Keys' cubic convolution with a = -1/2.
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
}

// [to,from]: the share of each old place in a new one. A smaller grid averages over wider windows.
std::vector<double> bicubic_shares(std::int64_t from, std::int64_t to) {
  std::vector<double> shares(static_cast<std::size_t>(from * to));
  const double step = static_cast<double>(from) / static_cast<double>(to);
  const double width = std::max(step, 1.0);
  for (std::int64_t i = 0; i < to; ++i) {
    double* const row = shares.data() + i * from;
    const double centre = (static_cast<double>(i) + 0.5) * step;
    double sum = 0;
    for (std::int64_t j = 0; j < from; ++j)
      sum += row[j] = cubic((static_cast<double>(j) + 0.5 - centre) / width);
    for (std::int64_t j = 0; j < from; ++j) row[j] /= sum;
  }
  return shares;
}

// [to,from]: what of each old pixel lies under a new one.
std::vector<double> area_shares(std::int64_t from, std::int64_t to) {
  std::vector<double> shares(static_cast<std::size_t>(from * to));
  const double step = static_cast<double>(from) / static_cast<double>(to);
  for (std::int64_t i = 0; i < to; ++i)
    for (std::int64_t j = 0; j < from; ++j) {
      const double begin = std::max(static_cast<double>(i) * step, static_cast<double>(j));
      const double end = std::min(static_cast<double>(i + 1) * step, static_cast<double>(j + 1));
      shares[static_cast<std::size_t>(i * from + j)] = std::max(0.0, end - begin);
    }
  return shares;
}

// out[e] += sum over j of shares[j] * rows[j * stride + e]
template <class T>
void add_shares(const double* shares, std::int64_t count, const T* rows, std::int64_t stride,
                std::int64_t width, double* out) {
  for (std::int64_t j = 0; j < count; ++j)
    for (std::int64_t e = 0; e < width; ++e)
      out[e] += shares[j] * static_cast<double>(rows[j * stride + e]);
}

// [from,from,width] -> [to,to,width], by shares [to,from] along both sides.
std::vector<double> resampled(const float* old, std::int64_t from, std::int64_t to,
                              std::int64_t width, const std::vector<double>& shares) {
  std::vector<double> wide(static_cast<std::size_t>(from * to * width));  // [from,to,width]
  for (std::int64_t y = 0; y < from; ++y)
    for (std::int64_t x = 0; x < to; ++x)
      add_shares(shares.data() + x * from, from, old + y * from * width, width, width,
                 wide.data() + (y * to + x) * width);
  std::vector<double> grid(static_cast<std::size_t>(to * to * width));
  for (std::int64_t y = 0; y < to; ++y)
    for (std::int64_t x = 0; x < to; ++x)
      add_shares(shares.data() + y * from, from, wide.data() + x * width, to * width, width,
                 grid.data() + (y * to + x) * width);
  return grid;
}

}  // namespace

std::int64_t grid_side(const Tensor& positions) {
  if (positions.rank() != 3 || positions.dim(0) != 1 || positions.dim(1) < 2) return 0;
  const std::int64_t patches = positions.dim(1) - 1;
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(patches)));
  return side * side == patches ? side : 0;
}

Tensor resampled_positions(const Tensor& positions, std::int64_t side) {
  const std::int64_t from = grid_side(positions), width = positions.dim(2);
  const std::vector<float> old = positions.to_vector<float>();
  const std::vector<double> grid =
      resampled(old.data() + width, from, side, width, bicubic_shares(from, side));
  std::vector<float> rows(old.begin(), old.begin() + width);
  rows.insert(rows.end(), grid.begin(), grid.end());
  return Tensor::of<float>({1, 1 + side * side, width}, rows);
}

Tensor resampled_patches(const Tensor& weight, std::int64_t side) {
  const std::int64_t from = weight.dim(2), filters = weight.dim(0) * weight.dim(1);
  const std::vector<double> shares = area_shares(from, side);
  const std::vector<float> old = weight.to_vector<float>();
  std::vector<float> all;
  for (std::int64_t f = 0; f < filters; ++f) {
    const std::vector<double> one = resampled(old.data() + f * from * from, from, side, 1, shares);
    all.insert(all.end(), one.begin(), one.end());
  }
  return Tensor::of<float>({weight.dim(0), weight.dim(1), side, side}, all);
}

}  // namespace hg
