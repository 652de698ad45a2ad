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

// out[e] += sum over j of shares[j] * rows[j * stride + e]
template <class T>
void add_shares(const double* shares, std::int64_t count, const T* rows, std::int64_t stride,
                std::int64_t width, double* out) {
  for (std::int64_t j = 0; j < count; ++j)
    for (std::int64_t e = 0; e < width; ++e)
      out[e] += shares[j] * static_cast<double>(rows[j * stride + e]);
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
  const std::vector<double> shares = bicubic_shares(from, side);
  const std::vector<float> old = positions.to_vector<float>();
  std::vector<double> wide(static_cast<std::size_t>(from * side * width));  // [from,side,E]
  for (std::int64_t y = 0; y < from; ++y)
    for (std::int64_t x = 0; x < side; ++x)
      add_shares(shares.data() + x * from, from, old.data() + (1 + y * from) * width, width, width,
                 wide.data() + (y * side + x) * width);
  std::vector<double> grid(static_cast<std::size_t>(side * side * width));  // [side,side,E]
  for (std::int64_t y = 0; y < side; ++y)
    for (std::int64_t x = 0; x < side; ++x)
      add_shares(shares.data() + y * from, from, wide.data() + x * width, side * width, width,
                 grid.data() + (y * side + x) * width);
  std::vector<float> rows(old.begin(), old.begin() + width);
  rows.insert(rows.end(), grid.begin(), grid.end());
  return Tensor::of<float>({1, 1 + side * side, width}, rows);
}

}  // namespace hg
