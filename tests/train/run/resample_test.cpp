// Positions on another grid, and projections of patches of another size.
#include "train/run/resample.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "tensor/random.h"

namespace {

using namespace hg;

Tensor positions(const std::vector<float>& patches) {
  std::vector<float> rows{7};  // the class token's
  rows.insert(rows.end(), patches.begin(), patches.end());
  return Tensor::of<float>({1, static_cast<std::int64_t>(rows.size()), 1}, rows);
}

void check_close(const Tensor& got, const std::vector<float>& patches) {
  const std::vector<float> want = positions(patches).to_vector<float>();
  const std::vector<float> values = got.to_vector<float>();
  REQUIRE(values.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) CHECK(values[i] == doctest::Approx(want[i]));
}

// What the filters of [E,C,p,p] give of a patch of one channel, whose pixels this tells.
std::vector<double> responses(const Tensor& weight,
                              const std::function<double(std::int64_t y, std::int64_t x)>& pixel) {
  const std::vector<float> w = weight.to_vector<float>();
  const std::int64_t side = weight.dim(2), filters = weight.dim(0) * weight.dim(1);
  std::vector<double> sums(static_cast<std::size_t>(filters));
  for (std::int64_t i = 0; i < weight.numel(); ++i)
    sums[static_cast<std::size_t>(i / (side * side))] +=
        static_cast<double>(w[static_cast<std::size_t>(i)]) * pixel(i / side % side, i % side);
  return sums;
}

void check_close(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]));
}

}  // namespace

TEST_CASE("a projection for other patches gives the same of an enlarged or reduced image") {
  const Tensor weight = Tensor::empty({5, 3, 8, 8});
  RandomStream stream(1, "filters");
  fill_normal(weight, stream, 0, 1);
  const auto image = [](std::int64_t y, std::int64_t x) {
    return std::sin(static_cast<double>(7 * y + 3 * x));
  };
  const Tensor smaller = resampled_patches(weight, 4), larger = resampled_patches(weight, 16);
  CHECK(smaller.shape() == Shape{5, 3, 4, 4});
  CHECK(larger.shape() == Shape{5, 3, 16, 16});
  check_close(responses(smaller, image), responses(weight, [&](std::int64_t y, std::int64_t x) {
                return image(y / 2, x / 2);
              }));
  check_close(
      responses(larger, [&](std::int64_t y, std::int64_t x) { return image(y / 2, x / 2); }),
      responses(weight, image));
  const auto even = [](std::int64_t, std::int64_t) { return 0.5; };
  check_close(responses(resampled_patches(weight, 7), even), responses(weight, even));
}

TEST_CASE("positions are resampled as timm does, larger and smaller") {
  // torch.nn.functional.interpolate(mode="bicubic", antialias=True)
  check_close(
      resampled_positions(positions({1, 2, 4, 8}), 3),
      {0.749827f, 1.20395f, 1.65807f, 2.33553f, 3.75f, 5.16447f, 3.92123f, 6.29605f, 8.67088f});
  check_close(
      resampled_positions(positions({-3, 4, 3, 5, -1, 7, 7, -1, 5, 3, 4, -3, 4, 3, 5, -1}), 3),
      {-0.870188f, 4.85907f, 3.71588f, 2.81842f, 5.73885f, -0.303763f, 4.03724f, 3.83006f,
       0.0246323f});
  check_close(
      resampled_positions(positions({-3, 4, 3, 5, -1, 7, 7, -1, 5, 3, 4, -3, 4, 3, 5, -1}), 2),
      {2.32158f, 3.61794f, 4.12996f, 1.50452f});
}

TEST_CASE("a constant stays one, and only a square is a grid") {
  check_close(resampled_positions(positions(std::vector<float>(9, 0.25f)), 7),
              std::vector<float>(49, 0.25f));
  CHECK(grid_side(positions(std::vector<float>(9))) == 3);
  CHECK(grid_side(positions(std::vector<float>(8))) == 0);
  CHECK(grid_side(Tensor::zeros({1, 1, 4})) == 0);
  CHECK(grid_side(Tensor::zeros({10, 4})) == 0);
}
