// The contrastive losses of nn/METHODS.md, section 6: values of appendix B, identities, mining,
// what is left out.
#include "tensor/ops/contrastive.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "autograd/tape.h"
#include "tensor/ops/label_pairs.h"
#include "tensor/ops/triplet.h"
#include "tensor/run.h"
#include "train/step/flop_counter.h"

namespace hg {
namespace {

using Ints = std::vector<std::int64_t>;
using Form = ContrastiveOptions::Form;
using Negatives = TripletOptions::Negatives;
using Loss = std::function<Tensor(const Tensor& z, const Tensor& labels)>;

const Ints kPairs{0, 0, 1, 1, 2, 2}, kClasses{0, 0, 1, 1, 1, 0};

Tensor integers(const Ints& values) {
  return Tensor::of({static_cast<std::int64_t>(values.size())}, values);
}

// Appendix B
Tensor six_points() {
  return Tensor::of<double>({6, 2}, {1, 0, .8, .6, 0, 1, .6, .8, -1, 0, -.6, -.8});
}

Loss all() {
  return [](auto& z, auto& y) { return contrastive_loss(z, y, {Form::all, 0.5, 0, 0}); };
}
Loss hard(double beta, double tau_plus) {
  return [=](auto& z, auto& y) {
    return contrastive_loss(z, y, {Form::hard, 0.5, beta, tau_plus});
  };
}
Loss triplet(Negatives negatives = Negatives::hard) {
  return [=](auto& z, auto& y) {
    RandomStream stream(1, "contrastive.negatives");
    return triplet_loss(z, y, {0.2, negatives}, stream);
  };
}

const std::vector<Loss> kEvery{all(),
                               hard(0, 0),
                               hard(1, 0),
                               hard(2, 0.1),
                               hard(1, .6),
                               triplet(),
                               triplet(Negatives::semi_hard)};

double value(const Loss& loss, const Tensor& z, const Ints& labels) {
  return loss(z, integers(labels)).item<double>();
}

std::vector<double> gradient(const Loss& loss, const Tensor& z, const Ints& labels) {
  Tape tape;
  tape.watch(z);
  return tape.backward(loss(z, integers(labels)))[z].to_vector<double>();
}

// Random points on the unit sphere.
Tensor points(std::int64_t rows, std::int64_t width, std::uint64_t seed = 3) {
  RandomStream stream(seed, "points");
  Tensor z = Tensor::empty({rows, width}, DType::f64);
  fill_normal(z, stream, 0, 1);
  for (std::int64_t i = 0; i < rows; ++i) {
    double* const row = z.data<double>() + i * width;
    const double norm = std::sqrt(std::inner_product(row, row + width, row, 0.0));
    for (std::int64_t k = 0; k < width; ++k) row[k] /= norm;
  }
  return z;
}

Ints cycling_labels(std::int64_t rows, std::int64_t classes) {
  Ints labels;
  for (std::int64_t i = 0; i < rows; ++i) labels.push_back(i * 7 % classes);
  return labels;
}

Tensor similarities(const Tensor& z) {
  const std::int64_t rows = z.dim(0), width = z.dim(1);
  Tensor s = Tensor::empty({rows, rows}, DType::f64);
  for (std::int64_t i = 0; i < rows * rows; ++i) {
    const double *a = z.data<double>() + i / rows * width, *b = z.data<double>() + i % rows * width;
    s.data<double>()[i] = std::inner_product(a, a + width, b, 0.0);
  }
  return s;
}

// Row i of the result is row order[i] of z.
Tensor rows_of(const Tensor& z, const std::vector<std::size_t>& order) {
  Tensor out = Tensor::empty(z.shape(), DType::f64);
  const auto width = static_cast<std::size_t>(z.dim(1));
  for (std::size_t i = 0; i < order.size(); ++i)
    std::copy_n(z.data<double>() + order[i] * width, width, out.data<double>() + i * width);
  return out;
}

Ints chosen_by(const TripletOptions& options, const Tensor& z, const Ints& labels,
               std::uint64_t first = 0) {
  return run(ops::Triplet(options, 99, first), {similarities(z), integers(labels)})[1]
      .to_vector<std::int64_t>();
}

}  // namespace

TEST_CASE("contrastive losses have the values of appendix B") {
  const Tensor z = six_points();
  const auto check = [&](const Loss& loss, const Ints& labels, double expected) {
    CHECK(std::abs(value(loss, z, labels) - expected) < 1e-9);
  };
  for (const Loss& loss : {all(), hard(0, 0)}) check(loss, kPairs, 0.719236429);
  check(hard(1, 0), kPairs, 1.068759591);
  check(hard(1, .1), kPairs, 0.996749462);
  check(hard(2, .1), kPairs, 1.115870557);
  check(triplet(), kPairs, 0.183204273);
  check(all(), kClasses, 2.372569762);
  check(hard(0, 0), kClasses, 2.148728527);
  check(hard(1, 0), kClasses, 2.710981434);
  check(triplet(), kClasses, 1.299530082);
}

TEST_CASE("with unique pairs, no emphasis and no correction all losses with a softmax are ntxent") {
  const Tensor z = points(14, 5);
  Ints pairs(14);
  for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = static_cast<std::int64_t>(i / 2);
  CHECK(value(hard(0, 0), z, pairs) == doctest::Approx(value(all(), z, pairs)).epsilon(1e-14));
  const auto a = gradient(hard(0, 0), z, pairs), b = gradient(all(), z, pairs);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 1e-14);
}

TEST_CASE("a larger beta never lowers the weight of an anchor's negatives") {
  const Tensor s = similarities(points(30, 6));
  const Ints labels = cycling_labels(30, 5);
  std::vector<double> before(30, -1e300);
  for (const double beta : {0.0, 0.3, 1.0, 4.0, 20.0}) {
    const auto lse = run(ops::Contrastive({Form::hard, 0.5, beta, 0}), {s, integers(labels)})[1]
                         .to_vector<double>();
    for (std::size_t i = 0; i < before.size(); ++i) {
      const double log_g = lse[2 * i] - lse[2 * i + 1];  // up to ln M, the same for all
      CHECK(log_g >= before[i]);
      before[i] = log_g;
    }
  }
}

TEST_CASE("rotating all embeddings leaves every loss as it is") {
  const Tensor z = points(20, 3);
  const Ints labels = cycling_labels(20, 4);
  Tensor turned = z.clone();
  for (std::int64_t i = 0; i < 20; ++i) {
    double* const r = turned.data<double>() + 3 * i;
    const double x = r[0], y = r[1], c = std::cos(0.7), s = std::sin(0.7);
    r[0] = c * x - s * y, r[1] = s * x + c * y;
    const double u = r[1], v = r[2];
    r[1] = s * u + c * v, r[2] = c * u - s * v;  // and a reflection
  }
  for (const Loss& loss : kEvery)
    CHECK(value(loss, turned, labels) == doctest::Approx(value(loss, z, labels)).epsilon(1e-12));
}

TEST_CASE("permuting the batch permutes the anchors") {
  const Tensor z = points(15, 4);
  const Ints labels = cycling_labels(15, 4);
  std::vector<std::size_t> order(15);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i * 4 % 15;
  Ints permuted;
  for (const std::size_t i : order) permuted.push_back(labels[i]);
  for (const Loss& loss : kEvery) {
    const Tensor moved = rows_of(z, order);
    CHECK(value(loss, moved, permuted) == doctest::Approx(value(loss, z, labels)).epsilon(1e-12));
    const auto there = gradient(loss, moved, permuted);
    const Tensor here = Tensor::of(z.shape(), gradient(loss, z, labels));
    const auto expected = rows_of(here, order).to_vector<double>();
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(std::abs(there[i] - expected[i]) < 1e-12);
  }
}

TEST_CASE("sharp settings stay finite in f32") {
  const Tensor z = points(24, 8).to(DType::f32);
  const Tensor labels = integers(cycling_labels(24, 4));
  for (const ContrastiveOptions& options : {ContrastiveOptions{Form::hard, 0.5, 50, 0},
                                            {Form::hard, 0.5, 50, 0.1},
                                            {Form::hard, 0.01, 50, 0.9},
                                            {Form::hard, 0.001, 1000, 0.5},
                                            {Form::all, 0.001, 0, 0}}) {
    Tape tape;
    tape.watch(z);
    const Tensor loss = contrastive_loss(z, labels, options);
    CHECK(std::isfinite(loss.item<float>()));
    CHECK(loss.item<float>() > 0);
    for (const float g : tape.backward(loss)[z].to_vector<float>()) CHECK(std::isfinite(g));
  }
}

TEST_CASE("at the floor of hcl the negatives have no influence") {
  const ContrastiveOptions options{Form::hard, 0.5, 1, 0.99};  // takes out more than there is
  const Tensor z = Tensor::of<double>({6, 2}, {1, 0, .8, .6, 0, 1, -.6, .8, -1, 0, -.8, -.6});
  const Tensor s = similarities(z), labels = integers(kPairs);
  Tape tape;
  tape.watch(s);
  const Tensor loss = run_one(ops::Contrastive(options), {s, labels});
  const auto ds = tape.backward(loss)[s].to_vector<double>();
  double expected = 0;
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t j = 0; j < 6; ++j) {
      const bool positive = i != j && kPairs[i] == kPairs[j];
      if (positive) expected += std::log1p(4 * std::exp(-2 - 2 * s.data<double>()[6 * i + j])) / 6;
      CHECK((ds[6 * i + j] != 0) == positive);
    }
  CHECK(loss.item<double>() == doctest::Approx(expected).epsilon(1e-12));
}

TEST_CASE("rows without a positive or a negative are no anchors") {
  const Tensor z = points(5, 3);
  CHECK(count_pairs(integers({4, 9, 4, -1, 4})).anchors == 3);
  CHECK(count_pairs(integers({4, 9, 4, -1, 4})).positives == 6);
  CHECK(count_pairs(integers({4, 9, 4, -1, 4})).negatives == 6);
  for (const Loss& loss : kEvery) {
    for (const Ints& none : {Ints{1, 1, 1, 1, 1}, Ints{0, 1, 2, 3, 4}}) {
      CHECK(value(loss, z, none) == 0);
      for (const double g : gradient(loss, z, none)) CHECK(g == 0);
    }
    CHECK(value(loss, points(1, 3), {0}) == 0);
  }
  // A lone row still is everybody else's negative.
  const Tensor labels = integers({0, 0, 1});
  const Tensor s = Tensor::of<double>({3, 3}, {1, .5, .25, .5, 1, 0, .25, 0, 1});
  const double loss = run_one(ops::Contrastive({Form::all, 1, 0, 0}), {s, labels}).item<double>();
  const double first = std::log(std::exp(.5) + std::exp(.25)) - .5;
  const double second = std::log(std::exp(.5) + 1) - .5;
  CHECK(loss == doctest::Approx((first + second) / 2).epsilon(1e-14));
}

TEST_CASE("mined negatives never share the anchor's label, positives always do") {
  const Tensor z = points(60, 5);
  Ints labels = cycling_labels(60, 6);
  labels[7] = 100;  // alone
  for (const Negatives negatives : {Negatives::hard, Negatives::semi_hard, Negatives::random}) {
    const Ints chosen = chosen_by({0.2, negatives}, z, labels);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto p = static_cast<std::size_t>(chosen[2 * i]);
      const auto n = static_cast<std::size_t>(chosen[2 * i + 1]);
      if (i == 7) {
        CHECK(p == i);
        CHECK(n == i);
        continue;
      }
      CHECK(p != i);
      CHECK(labels[p] == labels[i]);
      CHECK(labels[n] != labels[i]);
    }
  }
}

TEST_CASE("semi-hard negatives are the nearest beyond the positive, else the nearest of all") {
  const Ints labels = cycling_labels(40, 4);
  const Tensor z = points(40, 2), s = similarities(z);
  const auto at = [&](std::int64_t i, std::int64_t j) { return s.data<double>()[40 * i + j]; };
  const Ints chosen = chosen_by({0.2, Negatives::semi_hard}, z, labels);
  for (std::int64_t i = 0; i < 40; ++i) {
    const std::int64_t p = chosen[static_cast<std::size_t>(2 * i)];
    double beyond = -2, nearest = -2;
    for (std::int64_t j = 0; j < 40; ++j) {
      if (labels[static_cast<std::size_t>(j)] == labels[static_cast<std::size_t>(i)]) continue;
      nearest = std::max(nearest, at(i, j));
      if (at(i, j) < at(i, p)) beyond = std::max(beyond, at(i, j));
    }
    CHECK(at(i, chosen[static_cast<std::size_t>(2 * i + 1)]) == (beyond > -2 ? beyond : nearest));
  }
}

TEST_CASE("random negatives follow their stream and leave none out") {
  const Tensor z = points(12, 3);
  const Ints labels = cycling_labels(12, 3);
  const TripletOptions options{0.2, Negatives::random};
  CHECK(chosen_by(options, z, labels, 8) == chosen_by(options, z, labels, 8));
  std::set<std::int64_t> seen;
  for (std::uint64_t first = 0; first < 100; ++first)
    seen.insert(chosen_by(options, z, labels, first)[1]);
  CHECK(seen.size() == 8);
  RandomStream stream(4, "contrastive.negatives");
  triplet_loss(z, integers(labels), options, stream);
  CHECK(stream.position() == 12);
  triplet_loss(z, integers(labels), {0.2, Negatives::hard}, stream);
  CHECK(stream.position() == 12);
}

TEST_CASE("a contrastive loss costs 2 M^2 d in products, its gradient twice that") {
  const std::int64_t m = 18, d = 7;
  const Tensor z = points(m, d), labels = integers(cycling_labels(m, 3));
  for (const Loss& loss : kEvery) {
    FlopCounter counter;
    const ObserverGuard guard(counter);
    Tape tape;
    tape.watch(z);
    const Tensor value = loss(z, labels);
    CHECK(counter.flops_matmul() == static_cast<std::uint64_t>(2 * m * m * d));
    tape.backward(value);
    CHECK(counter.flops_matmul() == static_cast<std::uint64_t>(3 * 2 * m * m * d));
  }
}

TEST_CASE("contrastive losses name what is wrong with their options") {
  const Tensor z = points(4, 2), labels = integers({0, 0, 1, 1});
  const auto refused = [&](const ContrastiveOptions& o) {
    CHECK_THROWS_AS(contrastive_loss(z, labels, o), Error);
  };
  refused({Form::all, 0, 0, 0});
  refused({Form::hard, 0.5, -1, 0});
  refused({Form::hard, 0.5, 1, 1});
  RandomStream stream(1, "s");
  CHECK_THROWS_AS(triplet_loss(z, labels, {-0.1, Negatives::hard}, stream), Error);
  CHECK_THROWS_AS(contrastive_loss(z, integers({0, 1}), {}), Error);
}

}  // namespace hg
