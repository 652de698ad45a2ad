// Properties of reductions, normalisations and the loss that the generic op tests can't see:
// extreme values, NaN, ties, empty axes, long sums, messages, allocations.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "autograd/tape.h"
#include "tensor/allocator.h"
#include "tensor/ops/attention.h"
#include "tensor/ops/broadcast.h"
#include "tensor/ops/cross_entropy.h"
#include "tensor/ops/l2_normalize.h"
#include "tensor/ops/layer_norm.h"
#include "tensor/ops/log_softmax.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/softmax.h"
#include "tensor/ops/view.h"
#include "tensor/random.h"

namespace hg {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor random(const Shape& shape, double low = -1, double high = 1) {
  RandomStream stream(7, "norms_test");
  Tensor t = Tensor::empty(shape);
  fill_uniform(t, stream, low, high);
  return t;
}

void check_close(const Tensor& actual, const std::vector<double>& expected, double tolerance) {
  const auto values = actual.to_vector<float>();
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    INFO("element " << i);
    CHECK(values[i] == doctest::Approx(expected[i]).epsilon(tolerance));
  }
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// d(sum of weights * f(x)) / dx
Tensor gradient(const std::function<Tensor(const Tensor&)>& f, const Tensor& x,
                const Tensor& weights) {
  Tape tape;
  tape.watch(x);
  const Tensor y = f(x);
  return tape.backward(In(&y, 1), In(&weights, 1))[x];
}

}  // namespace

TEST_CASE("layer_norm keeps mean 0 and variance 1 under a large offset") {
  const std::int64_t rows = 5, n = 771;
  const Tensor x = random({rows, n}, 1e4 - 1, 1e4 + 1);
  const auto y = layer_norm(x, Tensor::full({n}, 1), Tensor::zeros({n})).to_vector<float>();
  for (std::int64_t r = 0; r < rows; ++r) {
    double sum = 0, squares = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const double v = y[static_cast<std::size_t>(r * n + j)];
      sum += v;
      squares += v * v;
    }
    CHECK(std::abs(sum / n) < 4e-3);  // the mean itself is a float near 1e4, with steps of 1e-3
    CHECK(squares / n == doctest::Approx(1).epsilon(1e-4));
  }
}

TEST_CASE("softmax and its relatives are exact at logits of 1e4") {
  const Tensor x = Tensor::of<float>({1, 3}, {1e4f, -1e4f, 1e4f});
  const double ln2 = std::log(2.0);
  check_close(softmax(x), {0.5, 0, 0.5}, 1e-6);
  check_close(log_softmax(x), {-ln2, -2e4 - ln2, -ln2}, 1e-6);
  check_close(log_softmax(reshape(x, {3, 1}), 0), {-ln2, -2e4 - ln2, -ln2}, 1e-6);
  check_close(logsumexp(x, 1), {1e4 + ln2}, 1e-7);
  check_close(logsumexp(x, 0), {1e4, -1e4, 1e4}, 1e-7);
  const Tensor first = Tensor::of<std::int64_t>({1}, {0}),
               second = Tensor::of<std::int64_t>({1}, {1});
  check_close(cross_entropy(x, first), {ln2}, 1e-6);
  check_close(cross_entropy(x, second), {2e4 + ln2}, 1e-6);
  check_close(cross_entropy(x, first, 0.3), {ln2 + 0.1 * 2e4}, 1e-6);
  const auto loss = [&](const Tensor& v) { return cross_entropy(v, first); };
  // The kept logsumexp is a float near 1e4, with steps of 1e-3.
  check_close(gradient(loss, x, Tensor::full({1}, 1)), {-0.5, 0, 0.5}, 1e-3);
}

TEST_CASE("logsumexp of infinities") {
  const Tensor x = Tensor::of<float>({3, 2}, {-kInfinity, -kInfinity, kInfinity, 0, -kInfinity, 3});
  const auto rows = logsumexp(x, 1).to_vector<float>();
  CHECK(rows[0] == -kInfinity);
  CHECK(rows[1] == kInfinity);
  CHECK(rows[2] == 3);
  const auto columns =
      logsumexp(Tensor::of<float>({2, 2}, {-kInfinity, kInfinity, -kInfinity, 0}), 0)
          .to_vector<float>();
  CHECK(columns[0] == -kInfinity);
  CHECK(columns[1] == kInfinity);
}

TEST_CASE("cross_entropy of uniform logits is ln C") {
  for (const double smoothing : {0.0, 0.1})
    for (const std::int64_t classes : {1, 10, 1000}) {
      const Tensor labels = Tensor::of<std::int64_t>({2}, {0, classes - 1});
      const Tensor loss = cross_entropy(Tensor::full({2, classes}, -3.5), labels, smoothing);
      CHECK(loss.shape() == Shape{1});
      CHECK(loss.item<float>() ==
            doctest::Approx(std::log(static_cast<double>(classes))).epsilon(1e-6));
    }
}

TEST_CASE("cross_entropy of groups adds up to that of the batch") {
  const Tensor logits = random({6, 5}, -3, 3);
  const Tensor labels = Tensor::of<std::int64_t>({6}, {4, 0, 1, 3, 2, 2});
  double groups = 0;
  for (const auto& [begin, end] : {std::pair{0, 2}, std::pair{2, 6}, std::pair{6, 6}})
    groups +=
        cross_entropy(slice(logits, begin, end), slice(labels, begin, end), 0.1, 6).item<float>();
  CHECK(cross_entropy(logits, labels, 0.1).item<float>() == doctest::Approx(groups).epsilon(1e-6));
}

TEST_CASE("cross_entropy refuses labels and parameters out of range") {
  const Tensor logits = random({3, 10});
  for (const std::int64_t bad : {std::int64_t{10}, std::int64_t{-1}}) {
    const Tensor labels = Tensor::of<std::int64_t>({3}, {0, 9, bad});
    CHECK(message_of([&] { cross_entropy(logits, labels); }) ==
          fmt::format("cross_entropy: label {} of row 2 is out of range for 10 classes", bad));
  }
  const Tensor labels = Tensor::of<std::int64_t>({3}, {0, 1, 2});
  CHECK_THROWS_AS(cross_entropy(logits, labels, 1.0), Error);
  CHECK_THROWS_AS(cross_entropy(logits, labels, -0.1), Error);
  CHECK_THROWS_AS(cross_entropy(logits, labels, kNaN), Error);
  CHECK_THROWS_AS(cross_entropy(logits, labels, 0, -1), Error);
  CHECK_THROWS_AS(cross_entropy(random({0, 3}), Tensor::zeros({0}, DType::i64)), Error);
}

// Every result of the row that holds a NaN is NaN, no other is.
TEST_CASE("NaN stays in its row and reaches all of it") {
  const std::int64_t rows = 3, n = 83;
  const Tensor gamma = Tensor::full({n}, 1), beta = Tensor::zeros({n});
  const Tensor labels = Tensor::of<std::int64_t>({rows}, {0, 1, 2});
  using Function = std::function<Tensor(const Tensor&)>;
  const std::pair<const char*, Function> functions[] = {
      {"sum", [](auto& x) { return sum(x, 1); }},
      {"mean", [](auto& x) { return mean(x, 1); }},
      {"max", [](auto& x) { return max(x, 1); }},
      {"logsumexp", [](auto& x) { return logsumexp(x, 1); }},
      {"log_softmax", [](auto& x) { return log_softmax(x); }},
      {"layer_norm", [&](auto& x) { return layer_norm(x, gamma, beta); }},
      {"l2_normalize", [](auto& x) { return l2_normalize(x); }}};
  for (const std::int64_t at : {0, 1, 37, 82}) {
    const Tensor x = random({rows, n});
    x.data<float>()[n + at] = kNaN;
    for (const auto& [name, f] : functions) {
      INFO(name << ", NaN at " << at);
      const auto y = f(x).to_vector<float>();
      const std::size_t width = y.size() / rows;
      for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (i / width == 1));
    }
    CHECK(std::isnan(cross_entropy(x, labels).item<float>()));
  }
}

TEST_CASE("attention gives NaN where a query is NaN, and everywhere where a key is") {
  const std::int64_t n = 5, m = 37, d = 4;
  for (const std::int64_t at : {0, 3, 15, 16, 36}) {
    const Tensor q = random({1, 1, n, d}), k = random({1, 1, m, d}), v = random({1, 1, m, d});
    q.data<float>()[2 * d + at % d] = kNaN;
    const auto by_query = attention(q, k, v).to_vector<float>();
    for (std::size_t i = 0; i < by_query.size(); ++i)
      CHECK(std::isnan(by_query[i]) == (i / d == 2));
    k.data<float>()[at * d] = kNaN;
    for (const float y : attention(random({1, 1, n, d}), k, v).to_vector<float>())
      CHECK(std::isnan(y));
  }
}

TEST_CASE("NaN stays in its column and reaches it") {
  const std::int64_t n = 83, columns = 21;
  for (const std::int64_t at : {0, 1, 37, 82})
    for (const std::int64_t column : {0, 15, 16, 20}) {
      const Tensor x = random({n, columns});
      x.data<float>()[at * columns + column] = kNaN;
      INFO("NaN at " << at << ", " << column);
      for (const Tensor& y : {sum(x, 0), mean(x, 0), max(x, 0), logsumexp(x, 0)})
        for (std::int64_t c = 0; c < columns; ++c)
          CHECK(std::isnan(y.data<float>()[c]) == (c == column));
    }
}

TEST_CASE("max sends the gradient to the first maximal element, or to the first NaN") {
  const Tensor x = Tensor::of<float>({2, 4}, {1, 5, 5, 2, 3, kNaN, 9, kNaN});
  const std::vector<float> expected{0, 2, 0, 0, 0, 3, 0, 0};
  const auto rows = gradient([](auto& v) { return max(v, 1); }, x, Tensor::of<float>({2}, {2, 3}));
  CHECK(rows.to_vector<float>() == expected);
  Tensor columns = Tensor::empty({1, 4, 2});
  for (int r = 0; r < 2; ++r)
    for (int j = 0; j < 4; ++j) columns.data<float>()[2 * j + r] = x.data<float>()[4 * r + j];
  const auto down = gradient([](auto& v) { return max(v, 1, true); }, columns,
                             Tensor::of<float>({1, 1, 2}, {2, 3}));
  for (int r = 0; r < 2; ++r)
    for (int j = 0; j < 4; ++j)
      CHECK(down.data<float>()[2 * j + r] == expected[static_cast<std::size_t>(4 * r + j)]);
}

TEST_CASE("only sum accepts an empty axis") {
  const Tensor x = Tensor::zeros({2, 0, 3});
  CHECK(sum(x, 1).to_vector<float>() == std::vector<float>(6, 0));
  CHECK(sum_all(x).to_vector<float>() == std::vector<float>{0});
  CHECK(message_of([&] { mean(x, 1); }) == "mean: axis 1 of f32[2,0,3] is empty");
  CHECK_THROWS_AS(max(x, 1), Error);
  CHECK_THROWS_AS(logsumexp(x, 1), Error);
  CHECK_THROWS_AS(mean_all(x), Error);
  CHECK(mean(x, 0).shape() == Shape{0, 3});
}

// One accumulator would be off by 1 %.
TEST_CASE("long sums lose few digits") {
  const std::int64_t n = 1 << 20;
  const double exact = static_cast<double>(0.1f) * static_cast<double>(n);
  check_close(sum_all(Tensor::full({4, n / 4}, 0.1)), {exact}, 2e-5);
  check_close(sum(Tensor::full({n / 2, 2}, 0.1), 0), {exact / 2, exact / 2}, 1e-4);
  check_close(sum_leading(Tensor::full({n / 2, 2}, 0.1), 1), {exact / 2, exact / 2}, 1e-4);
  check_close(logsumexp(Tensor::full({n}, 0.1), 0), {0.1 + std::log(static_cast<double>(n))}, 1e-6);
}

TEST_CASE("sums and means over everything have shape [1]") {
  const Tensor x = random({2, 3});
  CHECK(sum_all(x).shape() == Shape{1});
  CHECK(mean_all(Tensor::full({}, 3)).to_vector<float>() == std::vector<float>{3});
  const auto grad = gradient([](auto& v) { return mean_all(v); }, x, Tensor::full({1}, 3));
  CHECK(grad.to_vector<float>() == std::vector<float>(6, 0.5f));
}

TEST_CASE("broadcasting needs the trailing axes") {
  const Tensor x = random({2, 3, 5});
  CHECK(message_of([&] { add_leading(x, random({3})); }) ==
        "add_leading: f32[2,3,5] does not end in the axes of f32[3]");
  CHECK_THROWS_AS(mul_leading(x, random({1, 2, 3, 5})), Error);
  CHECK_THROWS_AS(sum_leading(x, 4), Error);
  CHECK_THROWS_AS(sum_leading(x, -1), Error);
}

TEST_CASE("l2_normalize of a zero row is zero, with gradient dy / eps") {
  const Tensor x = Tensor::zeros({1, 3});
  CHECK(l2_normalize(x).to_vector<float>() == std::vector<float>(3, 0));
  const auto f = [](const Tensor& v) { return l2_normalize(v, 0.125); };
  check_close(gradient(f, x, Tensor::of<float>({1, 3}, {1, 2, -3})), {8, 16, -24}, 1e-6);
}

TEST_CASE("a repeated forward and backward asks the system for no memory") {
  const Tensor x = random({40, 20, 64}), gamma = Tensor::full({64}, 1), beta = Tensor::zeros({64});
  const Tensor labels = Tensor::zeros({64}, DType::i64), position = random({20, 64});
  const auto step = [&] {
    Tape tape;
    for (const Tensor& leaf : {gamma, beta, position}) tape.watch(leaf);
    const Tensor h = mul_leading(layer_norm(add_leading(x, position), gamma, beta), gamma);
    const Tensor pooled = l2_normalize(max(logsumexp(h, 1), 0, true));  // [1,64]
    const Tensor all = add_leading(reshape(mean(h, 0), {20, 64}), reshape(pooled, {64}));
    const Tensor logits = add_leading(Tensor::zeros({64, 20, 64}), all);
    const Tensor loss = cross_entropy(log_softmax(sum(logits, 1)), labels);
    tape.backward(loss);
  };
  for (int warm_up = 0; warm_up < 3; ++warm_up) step();
  const auto before = allocator::stats().system_calls;
  for (int repeat = 0; repeat < 3; ++repeat) step();
  CHECK(allocator::stats().system_calls == before);
}

}  // namespace hg
