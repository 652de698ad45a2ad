#include "tensor/ops/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/tape.h"
#include "tensor/allocator.h"
#include "tensor/ops/binary.h"
#include "tensor/random.h"
#include "tensor/run.h"

namespace hg {
namespace {

using Doubles = std::vector<double>;

Tensor scalar(double value) { return Tensor::full({1}, value, DType::f64); }

Tensor noise(const Shape& shape, RandomStream& stream, DType dtype = DType::f64) {
  Tensor t = Tensor::empty(shape, dtype);
  fill_uniform(t, stream, -1, 1);
  return t;
}

void check_close(double value, double expected) {
  CHECK(value == doctest::Approx(expected).epsilon(1e-12));
}

const Doubles kGrads{0.5, -0.25, 0.125};

// p after each of three steps from 1.5, as torch.optim.SGD(lr=0.1, weight_decay=0.05, ..) gives it.
void check_sgd(SgdOptions options, const Doubles& expected) {
  const Tensor p = scalar(1.5), buffer = scalar(0);
  options.lr = 0.1;
  options.weight_decay = 0.05;
  for (std::size_t i = 0; i < 3; ++i) {
    sgd_step(options, p, buffer, Tensors{scalar(kGrads[i])});
    check_close(p.item<double>(), expected[i]);
  }
}

}  // namespace

TEST_CASE("AdamW takes the steps of torch.optim.AdamW") {
  const Doubles torch{1.3925001999995998, 1.3588678236637988, 1.3179201529678701};
  const Tensor p = scalar(1.5), m = scalar(0), v = scalar(0);
  for (std::size_t i = 0; i < 3; ++i) {
    adamw_step({.lr = 0.1,
                .beta1 = 0.9,
                .beta2 = 0.99,
                .eps = 1e-6,
                .weight_decay = 0.05,
                .step = static_cast<std::int64_t>(i) + 1},
               p, m, v, Tensors{scalar(kGrads[i])});
    check_close(p.item<double>(), torch[i]);
  }
}

TEST_CASE("SGD takes the steps of torch.optim.SGD") {
  check_sgd({}, {1.4425, 1.4602875, 1.4404860625});
  check_sgd({.momentum = 0.9}, {1.4425, 1.4085375, 1.3584285625});
  check_sgd({.momentum = 0.9, .nesterov = true}, {1.39075, 1.378462875, 1.3143174401875});
}

TEST_CASE("AdamW on two scaled gradients follows the formula for many steps") {
  constexpr std::int64_t n = 37;
  RandomStream stream(1, "optimizer");
  const Tensor p = noise({n}, stream), m = Tensor::zeros({n}, DType::f64);
  const Tensor v = Tensor::zeros({n}, DType::f64);
  Doubles want = p.to_vector<double>(), mean(n, 0.0), square(n, 0.0);
  for (int step = 1; step <= 20; ++step) {
    const Tensors grads{noise({n}, stream), noise({n}, stream)};
    adamw_step({.lr = 0.02, .weight_decay = 0.3, .step = step, .grad_scale = 0.25}, p, m, v, grads);
    for (std::size_t i = 0; i < n; ++i) {
      const double g = 0.25 * (grads[0].data<double>()[i] + grads[1].data<double>()[i]);
      mean[i] += 0.1 * (g - mean[i]);
      square[i] += 0.001 * (g * g - square[i]);
      const double corrected = mean[i] / (1 - std::pow(0.9, step));
      const double spread = std::sqrt(square[i] / (1 - std::pow(0.999, step)));
      want[i] -= 0.02 * 0.3 * want[i];
      want[i] -= 0.02 * corrected / (spread + 1e-8);
    }
  }
  for (std::size_t i = 0; i < n; ++i) check_close(p.data<double>()[i], want[i]);
}

TEST_CASE("SGD with momentum on two scaled gradients follows the formula for many steps") {
  constexpr std::int64_t n = 37;
  RandomStream stream(2, "optimizer");
  const Tensor p = noise({n}, stream), buffer = Tensor::zeros({n}, DType::f64);
  Doubles want = p.to_vector<double>(), velocity(n, 0.0);
  for (int step = 1; step <= 20; ++step) {
    const Tensors grads{noise({n}, stream), noise({n}, stream)};
    sgd_step({.lr = 0.02, .momentum = 0.8, .weight_decay = 0.3, .grad_scale = 0.25}, p, buffer,
             grads);
    for (std::size_t i = 0; i < n; ++i) {
      const double g = 0.25 * (grads[0].data<double>()[i] + grads[1].data<double>()[i]);
      velocity[i] = 0.8 * velocity[i] + g + 0.3 * want[i];
      want[i] -= 0.02 * velocity[i];
    }
  }
  for (std::size_t i = 0; i < n; ++i) check_close(p.data<double>()[i], want[i]);
}

TEST_CASE("an optimizer step writes into its inputs' storage and marks it as changed") {
  const Tensor p = scalar(1), m = scalar(0), v = scalar(0), g = scalar(1);
  const Tensors out = run(ops::AdamW({}), {p, m, v, g});
  REQUIRE(out.size() == 3);
  std::size_t i = 0;
  for (const Tensor& t : {p, m, v}) {
    CHECK(out[i].storage() == t.storage());
    CHECK(out[i++].id() != t.id());
    CHECK(t.storage()->version() == 1);
  }
  CHECK(g.storage()->version() == 0);
  sgd_step({}, p, Tensor(), Tensors{g});
  CHECK(p.storage()->version() == 2);
}

TEST_CASE("a step on a tensor that a live tape saved makes backward throw") {
  const Tensor x = scalar(2), w = scalar(3);
  Tape tape;
  tape.watch(x);
  const Tensor y = mul(x, w);
  adamw_step({}, w, scalar(0), scalar(0), Tensors{scalar(1)});
  CHECK_THROWS_WITH_AS(tape.backward(y), "tape: f64[1] was changed in place after mul used it",
                       Error);
}

TEST_CASE("grad_norm takes hundreds of gradients, in copies or not") {
  RandomStream stream(3, "optimizer");
  Tensors grads;
  double sum = 0, sum_of_pairs = 0;
  for (int i = 0; i < 300; i += 2) {
    const Shape shape{i % 7, 11 * i};
    grads.push_back(noise(shape, stream));
    grads.push_back(noise(shape, stream));
    for (std::int64_t j = 0; j < shape.numel(); ++j) {
      const double a = grads[grads.size() - 2].data<double>()[j],
                   b = grads.back().data<double>()[j];
      sum += a * a + b * b;
      sum_of_pairs += (a + b) * (a + b);
    }
  }
  check_close(grad_norm(grads).item<double>(), std::sqrt(sum));
  check_close(grad_norm(grads, 2).item<double>(), std::sqrt(sum_of_pairs));
  CHECK_THROWS_WITH_AS(grad_norm(grads, 7), "grad_norm: 300 gradients do not make groups of 7",
                       Error);
}

TEST_CASE("grad_norm of many small f32 gradients loses no digits") {
  const Tensor g = Tensor::full({3000000}, 1e-3);
  const double norm = grad_norm(Tensors{g}).item<float>();
  CHECK(std::abs(norm / (1e-3f * std::sqrt(3e6)) - 1) < 1e-7);
}

TEST_CASE("clip_scale") {
  CHECK(clip_scale(3, 0) == 1);
  CHECK(clip_scale(3, 3) == 1);
  CHECK(clip_scale(4, 1) == 1 / (4 + 1e-6));
  CHECK_THROWS_WITH_AS(clip_scale(std::nan(""), 1), "clip_scale: gradient norm is nan", Error);
  CHECK_THROWS_WITH_AS(clip_scale(std::numeric_limits<double>::infinity(), 0),
                       "clip_scale: gradient norm is inf", Error);
}

TEST_CASE("steps reach the system's allocator only once") {
  RandomStream stream(4, "optimizer");
  const Tensor p = noise({1000}, stream), m = Tensor::zeros({1000}, DType::f64);
  const Tensor v = Tensor::zeros({1000}, DType::f64);
  const Tensors grads{noise({1000}, stream), noise({1000}, stream)};
  const auto step = [&] {
    const double norm = grad_norm(grads, 2).item<double>();
    adamw_step({.grad_scale = clip_scale(norm, 1)}, p, m, v, grads);
  };
  step();
  const std::uint64_t before = allocator::stats().system_calls;
  for (int i = 0; i < 10; ++i) step();
  CHECK(allocator::stats().system_calls == before);
}

TEST_CASE("options out of range are refused") {
  const Tensors g{scalar(1)};
  const Tensor p = scalar(1), m = scalar(0), v = scalar(0);
  CHECK_THROWS_WITH(adamw_step({.step = 0}, p, m, v, g), "adamw: steps count from 1, got 0");
  CHECK_THROWS_WITH(adamw_step({.beta1 = 1}, p, m, v, g), "adamw: beta 1 is not in [0, 1)");
  CHECK_THROWS_WITH(adamw_step({.lr = -1}, p, m, v, g), "adamw: lr must be 0 or more, got -1");
  CHECK_THROWS_WITH(sgd_step({.nesterov = true}, p, v, g), "sgd: nesterov needs a momentum");
  CHECK_THROWS_AS(sgd_step({.momentum = 0.9}, p, Tensor(), g), Error);
  CHECK_THROWS_AS(sgd_step({}, p, Tensor(), {}), Error);
}

}  // namespace hg
