#include "tensor/ops/dropout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "autograd/tape.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/philox.h"

namespace hg {
namespace {

using Floats = std::vector<float>;

Tensor ones(std::int64_t n) { return Tensor::full({n}, 1); }

std::int64_t kept(const Floats& y) {
  return static_cast<std::int64_t>(y.size()) - std::count(y.begin(), y.end(), 0.0f);
}

}  // namespace

TEST_CASE("draw_blocks gives the draws of the stream") {
  for (const std::uint64_t first : {std::uint64_t{0}, (std::uint64_t{1} << 32) - 5}) {
    std::uint32_t draws[cpu::kPhiloxDraws];
    cpu::draw_blocks(0xfedcba9876543210, first, draws);
    for (std::size_t i = 0; i < cpu::kPhiloxDraws; ++i)
      REQUIRE(draws[i] == draw_block(0xfedcba9876543210, first + i / 4)[i % 4]);
  }
}

TEST_CASE("dropout keeps the expected share and the expected value") {
  constexpr std::int64_t n = 200000;
  for (const double p : {0.1, 0.5, 0.9}) {
    RandomStream stream(3, "dropout");
    const Floats y = dropout(ones(n), p, stream).to_vector<float>();
    const double sigma = std::sqrt(p * (1 - p) / n);
    CHECK(std::abs(static_cast<double>(kept(y)) / n - (1 - p)) < 4 * sigma);
    CHECK(*std::max_element(y.begin(), y.end()) == static_cast<float>(1 / (1 - p)));
  }
}

TEST_CASE("the gradient passes where the forward passed") {
  const Tensor x = ones(1001);
  RandomStream stream(5, "dropout");
  stream.seek(3);
  Tape tape;
  tape.watch(x);
  const Tensor y = dropout(x, 0.4, stream);
  const Tensor seed = ones(1001);
  CHECK(tape.backward(In(&y, 1), In(&seed, 1))[x].to_vector<float>() == y.to_vector<float>());
}

TEST_CASE("a call takes one draw per element, and the next call drops others") {
  const Tensor x = ones(500);
  RandomStream stream(5, "dropout");
  const Floats first = dropout(x, 0.5, stream).to_vector<float>();
  CHECK(stream.position() == 500);
  const Floats second = dropout(x, 0.5, stream).to_vector<float>();
  CHECK(stream.position() == 1000);
  CHECK(first != second);
  // Element i of a call depends on its draw alone, wherever the call began.
  stream.seek(123);
  const Floats shifted = dropout(x, 0.5, stream).to_vector<float>();
  CHECK(std::equal(first.begin() + 123, first.end(), shifted.begin()));
  stream.seek(0);
  CHECK(dropout(x, 0.5, stream).to_vector<float>() == first);
}

TEST_CASE("the mask is the same with one thread and two") {
  const Tensor x = ones(100003);
  Floats results[2];
  for (const int threads : {1, 2}) {
    const cpu::ThreadLimit limit(threads);
    RandomStream stream(7, "dropout");
    stream.seek(1);
    results[threads - 1] = dropout(x, 0.3, stream).to_vector<float>();
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("probability 0 is the identity and 1 is refused") {
  RandomStream stream(9, "dropout");
  const Tensor x = Tensor::of<float>({4}, {0.1f, -3e38f, 1e-45f, -0.0f});
  CHECK(dropout(x, 0, stream).id() == x.id());
  CHECK(stream.position() == 4);
  for (const double p : {1.0, -0.1, std::nan("")}) CHECK_THROWS_AS(dropout(x, p, stream), Error);
  CHECK_THROWS_WITH(dropout(x, 1, stream), "dropout: probability 1 is not in [0, 1)");
  CHECK(stream.position() == 4);
}

}  // namespace hg
