// Muon against its plain form in double, and what it does to singular values.
#include "train/step/muon.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tensor/random.h"
#include "train/step/flop_counter.h"
#include "train/step/optimizer.h"

namespace {

using namespace hg;

struct Matrix {
  std::int64_t rows, cols;
  std::vector<double> at;

  explicit Matrix(const Tensor& t) : rows(t.dim(0)), cols(t.dim(1)) {
    for (const float v : t.to_vector<float>()) at.push_back(v);
  }
  Matrix(std::int64_t rows, std::int64_t cols)
      : rows(rows), cols(cols), at(static_cast<std::size_t>(rows * cols)) {}
  double& operator()(std::int64_t i, std::int64_t j) {
    return at[static_cast<std::size_t>(i * cols + j)];
  }
  double operator()(std::int64_t i, std::int64_t j) const {
    return at[static_cast<std::size_t>(i * cols + j)];
  }
};

Matrix times(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.cols);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < b.cols; ++j)
      for (std::int64_t k = 0; k < a.cols; ++k) c(i, j) += a(i, k) * b(k, j);
  return c;
}

Matrix transposed(const Matrix& a) {
  Matrix t(a.cols, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.cols; ++j) t(j, i) = a(i, j);
  return t;
}

Matrix plain_orthogonalized(Matrix x) {
  double squares = 0;
  for (const double v : x.at) squares += v * v;
  for (double& v : x.at) v /= std::sqrt(squares);
  for (int step = 0; step < 5; ++step) {
    const Matrix a = times(x, transposed(x)), a_x = times(a, x), a_a_x = times(a, a_x);
    for (std::size_t i = 0; i < x.at.size(); ++i)
      x.at[i] = 3.4445 * x.at[i] - 4.7750 * a_x.at[i] + 2.0315 * a_a_x.at[i];
  }
  return x;
}

Tensor drawn_matrix(std::int64_t rows, std::int64_t cols, const char* name) {
  const Tensor t = Tensor::empty({rows, cols});
  RandomStream stream(7, name);
  fill_normal(t, stream, 0, 1);
  return t;
}

}  // namespace

TEST_CASE("muon orthogonalises wide, tall and square matrices as its plain form does") {
  for (const auto& [rows, cols] : {std::pair{5, 12}, {12, 5}, {8, 8}, {1, 6}}) {
    const Tensor g = drawn_matrix(rows, cols, "g");
    const Matrix got(orthogonalized(g)), want = plain_orthogonalized(Matrix(g));
    for (std::size_t i = 0; i < want.at.size(); ++i)
      CHECK(got.at[i] == doctest::Approx(want.at[i]).epsilon(1e-3));
    if (rows == cols) continue;
    const Matrix products = rows < cols ? times(got, transposed(got)) : times(transposed(got), got);
    for (std::int64_t i = 0; i < products.rows; ++i) {  // squares of singular values, about
      CHECK(products(i, i) > 0.3);
      CHECK(products(i, i) < 1.7);
    }
  }
  for (const float v : orthogonalized(Tensor::zeros({3, 4})).to_vector<float>()) CHECK(v == 0);
}

TEST_CASE("muon's steps follow their plain form") {
  constexpr double kRate = 0.02, kDecay = 0.1;
  const Tensor p = drawn_matrix(6, 10, "p"), buffer = Tensor::zeros({6, 10});
  Matrix weights(p), momentum(6, 10);
  for (int step = 0; step < 3; ++step) {
    const Tensor a = drawn_matrix(6, 10, "a"), b = drawn_matrix(6, 10, "b");
    const Matrix first(a), second(b);
    Matrix direction(6, 10);
    for (std::size_t i = 0; i < direction.at.size(); ++i) {
      const double g = 0.5 * (first.at[i] + second.at[i]);
      momentum.at[i] = 0.95 * momentum.at[i] + g;
      direction.at[i] = g + 0.95 * momentum.at[i];
    }
    const Matrix update = plain_orthogonalized(direction);
    for (std::size_t i = 0; i < update.at.size(); ++i)
      weights.at[i] =
          weights.at[i] * (1 - kRate * kDecay) - kRate * 0.2 * std::sqrt(10.0) * update.at[i];
    const Tensor gradients[] = {a, b};
    muon_step({kRate, kDecay, 0.5}, p, buffer, gradients);
  }
  const Matrix got(p);
  for (std::size_t i = 0; i < weights.at.size(); ++i)
    CHECK(got.at[i] == doctest::Approx(weights.at[i]).epsilon(1e-3));
}

TEST_CASE("muon is for matrices of blocks and its products are counted") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape); };
  const std::vector<nn::Parameter> trained{{"blocks.0.mlp.fc1.weight", zeros({8, 4}), true},
                                           {"blocks.0.mlp.fc1.bias", zeros({8}), false},
                                           {"blocks.0.attn.pi", zeros({2, 5}), false},
                                           {"head.weight", zeros({3, 4}), true}};
  TrainConfig train;
  train.optimizer = TrainConfig::Optimizer::muon;
  Optimizer optimizer(trained, train);
  std::vector<std::string> names;
  for (const auto& [name, value] : optimizer.state()) names.push_back(name);
  CHECK(names == std::vector<std::string>{
                     "muon.momentum.blocks.0.mlp.fc1.weight", "adamw.m.blocks.0.mlp.fc1.bias",
                     "adamw.v.blocks.0.mlp.fc1.bias", "adamw.m.blocks.0.attn.pi",
                     "adamw.v.blocks.0.attn.pi", "adamw.m.head.weight", "adamw.v.head.weight"});
  Tensors gradients;
  for (const nn::Parameter& p : trained) gradients.push_back(Tensor::full(p.value.shape(), 1));
  FlopCounter counter;
  const ObserverGuard guard(counter);
  REQUIRE(optimizer.step({gradients}, 0.1));
  // [4,8] x [8,4], [4,4] x [4,4] and [8,4] x [4,4], five times
  CHECK(counter.flops_matmul() == 5 * 2 * (4 * 8 * 4 + 4 * 4 * 4 + 8 * 4 * 4));
}
