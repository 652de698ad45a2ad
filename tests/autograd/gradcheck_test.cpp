// gradcheck must find what is wrong; the generic op tests rely on it.
#include "autograd/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tensor/ops/binary.h"
#include "tensor/ops/unary.h"
#include "tensor/ops/view.h"
#include "tensor/random.h"
#include "tensor/run.h"

using namespace hg;

namespace {

// y = x^2 with a gradient that is wrong at one element, by `fault`.
class Faulty final : public OpOf<Faulty> {
 public:
  Faulty(std::int64_t at, double fault) : at(at), fault(fault) {}
  std::string_view name() const override { return "faulty"; }
  TensorSpecs infer(In in) const override { return {in[0].spec()}; }
  CostParts cost(In in, In out) const override { return elementwise_cost(in, out, count(out[0])); }
  void cpu(In in, Out out) const override {
    const double* x = in[0].data<double>();
    for (std::int64_t i = 0; i < in[0].numel(); ++i) out[0].data<double>()[i] = x[i] * x[i];
  }
  Tensors grad(const GradArgs& args) const override {
    const Tensor dx = mul(args.grad_out[0], scale(args.in[0], 2)).clone();
    if (at >= 0) dx.data<double>()[at] += fault;
    return {dx};
  }
  const std::int64_t at;
  const double fault;
};

TensorFunction faulty(std::int64_t at, double fault) {
  return [=](In x) { return run(Faulty(at, fault), x); };
}

Tensors inputs(std::initializer_list<Shape> shapes) {
  RandomStream stream(1, "gradcheck test");
  Tensors all;
  for (const Shape& shape : shapes) {
    all.push_back(Tensor::empty(shape, DType::f64));
    fill_uniform(all.back(), stream, -1, 1);
  }
  return all;
}

bool starts_with(const std::string& text, std::string_view start) {
  return text.compare(0, start.size(), start) == 0;
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("gradcheck passes a right gradient") {
  const auto result = gradcheck(faulty(-1, 0), inputs({{3, 5}}));
  CHECK(result.ok);
  CHECK(result.max_error < 1e-7);
  CHECK(result.checked == 15 + 3);
}

TEST_CASE("gradcheck tells where a gradient is wrong") {
  const auto result = gradcheck(faulty(7, 0.25), inputs({{3, 5}}));
  CHECK_FALSE(result.ok);
  CHECK(result.max_error == doctest::Approx(0.25).epsilon(1e-4));
  INFO(result.worst);
  CHECK(starts_with(result.worst, "input 0, element 7: analytic "));
}

TEST_CASE("gradcheck finds an error of twice the tolerance and admits one of half of it") {
  CHECK_FALSE(gradcheck(faulty(2, 2e-7), inputs({{4}})).ok);
  CHECK(gradcheck(faulty(2, 5e-8), inputs({{4}})).ok);
}

TEST_CASE("gradcheck names the input at fault") {
  const auto result =
      gradcheck([](In x) { return Tensors{add(tanh(x[0]), run_one(Faulty(1, 0.5), {x[1]}))}; },
                inputs({{2, 2}, {2, 2}}));
  CHECK_FALSE(result.ok);
  INFO(result.worst);
  CHECK(starts_with(result.worst, "input 1, element 1: analytic "));
}

TEST_CASE("gradcheck finds one wrong element of many") {
  const auto result = gradcheck(faulty(4321, 1), inputs({{100, 100}}));
  CHECK_FALSE(result.ok);
  CHECK(result.checked == 64 + 3);
}

TEST_CASE("gradcheck does not pass NaN or infinite gradients") {
  for (const double fault : {kNaN, std::numeric_limits<double>::infinity()})
    for (const std::int64_t at : {0, 2, 3}) {
      const auto result = gradcheck(faulty(at, fault), inputs({{4}}));
      INFO(result.worst);
      CHECK_FALSE(result.ok);
      CHECK_FALSE(result.max_error < 1);
      CHECK(starts_with(result.worst, fmt::format("input 0, element {}: analytic ", at)));
    }
}

TEST_CASE("gradcheck does not pass a function that gives NaN") {
  const auto result = gradcheck([](In x) { return Tensors{log(x[0])}; },
                                Tensors{Tensor::of<double>({3}, {0.5, -0.5, 2})});
  CHECK_FALSE(result.ok);
  CHECK_FALSE(result.max_error < 1);
}

TEST_CASE("gradcheck takes strided and integer inputs") {
  const Tensor x = inputs({{3, 4}})[0], labels = Tensor::zeros({2}, DType::i64);
  const auto result =
      gradcheck([](In in) { return Tensors{transpose(in[0])}; }, Tensors{transpose(x), labels});
  CHECK(result.ok);
  CHECK(result.checked == 12 + 3);
}

TEST_CASE("gradcheck refuses what it cannot check") {
  CHECK_THROWS_WITH_AS(gradcheck(faulty(-1, 0), Tensors{Tensor::zeros({2})}),
                       "gradcheck: inputs must be f64, got f32[2]", Error);
  CHECK_THROWS_AS(gradcheck([](In x) { return Tensors{tanh(x[0])}; }, inputs({{2}, {3}})), Error);
  CHECK_THROWS_AS(gradcheck([](In x) { return Tensors{tanh(x[0].detach())}; }, inputs({{2}})),
                  Error);
}
