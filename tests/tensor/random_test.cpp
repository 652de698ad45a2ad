#include "tensor/random.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "tensor/ops/view.h"

using namespace hg;

namespace {

std::vector<double> uniforms(std::uint64_t seed, std::string_view name, int n) {
  RandomStream stream(seed, name);
  std::vector<double> values;
  for (int i = 0; i < n; ++i) values.push_back(stream.uniform());
  return values;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - 0.5) * (b[i] - 0.5);
    aa += (a[i] - 0.5) * (a[i] - 0.5);
    bb += (b[i] - 0.5) * (b[i] - 0.5);
  }
  return ab / std::sqrt(aa * bb);
}

// mean of (x - center)^power
double moment(const std::vector<double>& values, int power, double center) {
  double sum = 0;
  for (const double v : values) sum += std::pow(v - center, power);
  return sum / static_cast<double>(values.size());
}

}  // namespace

// kat_vectors of the Random123 distribution, philox4x32-10
TEST_CASE("Philox gives the known answers") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
        PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
        PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("streams of different names or seeds do not correlate") {
  constexpr int kDraws = 100'000;
  const std::vector<std::vector<double>> streams{
      uniforms(1, "init", kDraws), uniforms(1, "init2", kDraws), uniforms(1, "", kDraws),
      uniforms(2, "init", kDraws), uniforms(1ull << 32, "init", kDraws)};
  for (std::size_t i = 0; i < streams.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      CHECK(std::abs(correlation(streams[i], streams[j])) < 0.015);  // 4.7 standard deviations
  const std::vector<double>& a = streams[0];
  const std::vector<double> now(a.begin(), a.end() - 1), next(a.begin() + 1, a.end());
  CHECK(std::abs(correlation(now, next)) < 0.015);
}

TEST_CASE("no two names or seeds share a key") {
  std::set<std::uint64_t> keys;
  for (int i = 0; i < 20'000; ++i)
    keys.insert(RandomStream(7, "dropout." + std::to_string(i)).key());
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) keys.insert(RandomStream(seed, "data").key());
  for (int bit = 32; bit < 64; ++bit) keys.insert(RandomStream(1ull << bit, "data").key());
  CHECK(keys.size() == 40'032);
  CHECK(RandomStream(7, "dropout.3").key() == RandomStream(7, "dropout.3").key());
}

TEST_CASE("a stream resumes from its position") {
  RandomStream stream(3, "resume");
  for (int i = 0; i < 5; ++i) stream.bits();
  const std::uint64_t position = stream.position();
  CHECK(position == 5);
  const std::uint32_t bits = stream.bits();
  const double normal = stream.normal();
  const std::uint64_t below = stream.below(1000);
  CHECK(stream.position() == 10);

  RandomStream resumed(3, "resume");
  resumed.seek(position);
  CHECK(resumed.bits() == bits);
  CHECK(resumed.normal() == normal);
  CHECK(resumed.below(1000) == below);
}

TEST_CASE("take reserves draws that a kernel computes itself") {
  RandomStream stream(3, "kernel"), drawn(3, "kernel");
  CHECK(stream.take(3) == 0);
  const std::uint64_t first = stream.take(10);
  CHECK(first == 3);
  CHECK(stream.position() == 13);
  for (int i = 0; i < 3; ++i) drawn.bits();
  for (std::uint64_t p = first; p < 13; ++p) {
    CHECK(stream.draw(p) == draw_block(stream.key(), p / 4)[p % 4]);
    CHECK(stream.draw(p) == drawn.bits());
  }
  CHECK(stream.position() == 13);
  const std::uint64_t far = (1ull << 34) + 1;  // the counter's second word counts, too
  CHECK(stream.draw(far) == draw_block(stream.key(), far / 4)[1]);
  CHECK(stream.draw(far) != stream.draw(1));
}

TEST_CASE("uniform draws fill the unit interval evenly") {
  CHECK(uniform_from_bits(0) == 0.0f);
  CHECK(uniform_from_bits(~0u) == 1.0f - 0x1p-24f);
  const std::vector<double> values = uniforms(11, "uniform", 100'000);
  std::vector<int> bins(10);
  for (const double v : values) {
    REQUIRE((v >= 0 && v < 1));
    ++bins[static_cast<std::size_t>(v * 10)];
  }
  CHECK(moment(values, 1, 0) == doctest::Approx(0.5).epsilon(0.01));
  CHECK(moment(values, 2, 0.5) == doctest::Approx(1.0 / 12).epsilon(0.02));
  for (const int n : bins) CHECK(std::abs(n - 10'000) < 500);
}

TEST_CASE("normal draws have the moments of the normal distribution") {
  RandomStream stream(11, "normal");
  std::vector<double> values;
  int beyond_two = 0;
  for (int i = 0; i < 200'000; ++i) {
    values.push_back(stream.normal());
    REQUIRE(std::isfinite(values.back()));
    beyond_two += std::abs(values.back()) > 2;
  }
  CHECK(std::abs(moment(values, 1, 0)) < 0.01);
  CHECK(moment(values, 2, 0) == doctest::Approx(1).epsilon(0.015));
  CHECK(std::abs(moment(values, 3, 0)) < 0.03);
  CHECK(moment(values, 4, 0) == doctest::Approx(3).epsilon(0.03));
  CHECK(beyond_two / 200'000.0 == doctest::Approx(0.0455).epsilon(0.05));
}

TEST_CASE("below draws every integer of its range equally often") {
  RandomStream stream(11, "below");
  for (const std::uint64_t n : {1ull, 2ull, 3ull, 1000ull, 1ull << 33, 1ull << 63, ~0ull})
    for (int i = 0; i < 1000; ++i) REQUIRE(stream.below(n) < n);
  std::vector<int> counts(6);
  for (int i = 0; i < 60'000; ++i) ++counts[stream.below(6)];
  for (const int n : counts) CHECK(std::abs(n - 10'000) < 450);
  CHECK_THROWS_WITH_AS(stream.below(0), "random: an integer below 0 was asked for", Error);
}

// Plain v % n would draw the lowest third of 3 * 2^62 half of the time.
TEST_CASE("below has no bias for very large ranges") {
  RandomStream stream(12, "below");
  int low = 0;
  for (int i = 0; i < 30'000; ++i) low += stream.below(3ull << 62) < 1ull << 62;
  CHECK(low / 30'000.0 == doctest::Approx(1.0 / 3).epsilon(0.04));
}

TEST_CASE("tensors are filled from the stream in order") {
  RandomStream stream(5, "fill"), same(5, "fill");
  const Tensor u = Tensor::empty({3, 7});
  fill_uniform(u, stream, -2, 2);
  for (const float v : u.to_vector<float>()) {
    CHECK((v >= -2 && v < 2));
    CHECK(v == static_cast<float>(-2 + 4.0 * same.uniform()));
  }
  const Tensor n = Tensor::empty({50'000}, DType::f64);
  fill_normal(n, stream, 3, 0.5);
  const std::vector<double> values = n.to_vector<double>();
  CHECK(values[0] == 3 + 0.5 * same.normal());
  CHECK(moment(values, 1, 0) == doctest::Approx(3).epsilon(0.01));
  CHECK(moment(values, 2, 3) == doctest::Approx(0.25).epsilon(0.03));
}

TEST_CASE("only contiguous floats are filled") {
  RandomStream stream(5, "fill");
  CHECK_THROWS_WITH_AS(fill_uniform(Tensor::empty({2}, DType::i64), stream, 0, 1),
                       "fill_uniform: expected f32 or f64, got i64", Error);
  CHECK_THROWS_AS(fill_normal(Tensor(), stream, 0, 1), Error);
  CHECK_THROWS_WITH_AS(fill_uniform(transpose(Tensor::empty({2, 3})), stream, 0, 1),
                       "fill_uniform: f32[3,2] is a strided view", Error);
}
