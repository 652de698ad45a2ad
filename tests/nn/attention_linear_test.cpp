// What nn/METHODS.md, sections 2.4 and 2.8 - 2.14 say must hold of the linear variants.
#include <numbers>

#include "tensor/ops/cos_features.h"
#include "tensor/ops/favor_features.h"
#include "tensor/ops/linear_attention.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/view.h"
#include "tests/nn/attention_layer.h"

namespace attention_linear_test {

using namespace hg;
using namespace hg::testing;
using O = AttentionOptions;

constexpr std::int64_t kTokens = 9, kWidth = 4;  // one head, unless said otherwise

// With a reduction that suits few tokens.
O reduced(const std::string& name) {
  O o = variant(name);
  o.reduction = 3;
  return o;
}

Tensors inputs(int count = 3) { return random_inputs({1, kTokens, kWidth}, count); }

Tensor run_layer(const O& o, const Tensors& parts) { return hg::testing::run_layer(o, parts, 1); }

// [N, D] of one image as rows
std::vector<Values> rows_of(const Tensor& x) {
  std::vector<Values> rows;
  const Values all = x.to(DType::f64).to_vector<double>();
  const auto width = static_cast<std::size_t>(x.dim(-1));
  for (std::size_t i = 0; i < all.size(); i += width)
    rows.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(i),
                      all.begin() + static_cast<std::ptrdiff_t>(i + width));
  return rows;
}

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// O = A V with A_ij = f_i.g_j / (its sum over j), or without the division; A must be a
// distribution.
Values quadratic_form(const std::vector<Values>& f, const std::vector<Values>& g, const Tensor& v,
                      bool divided = true) {
  const std::vector<Values> values = rows_of(v);
  Values out;
  for (const Values& query : f) {
    double sum = 0, total = 0;
    for (const Values& key : g) sum += dot(query, key);
    Values row(values[0].size(), 0.0);
    for (std::size_t j = 0; j < g.size(); ++j) {
      const double weight = dot(query, g[j]) / (divided ? sum : 1);
      CHECK(weight >= 0);
      total += weight;
      for (std::size_t c = 0; c < row.size(); ++c) row[c] += weight * values[j][c];
    }
    CHECK(total == doctest::Approx(1));
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

template <class F>
std::vector<Values> mapped(const Tensor& x, F f) {
  std::vector<Values> rows = rows_of(x);
  for (Values& row : rows)
    for (double& value : row) value = f(value);
  return rows;
}
double elu1(double x) { return x > 0 ? x + 1 : std::exp(x); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<Values> softmax_rows(std::vector<Values> rows) {
  for (Values& row : rows) {
    double sum = 0;
    for (double& value : row) sum += value = std::exp(value);
    for (double& value : row) value /= sum;
  }
  return rows;
}
std::vector<Values> transposed(const std::vector<Values>& rows) {
  std::vector<Values> columns(rows[0].size());
  for (const Values& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) columns[c].push_back(row[c]);
  return columns;
}
std::vector<Values> softmax_columns(const Tensor& x) {
  return transposed(softmax_rows(transposed(rows_of(x))));
}

Tensor reversed(const Tensor& x) {
  const Tensor y = x.clone();
  const std::int64_t n = x.dim(1), row = x.dim(2);
  for (std::int64_t i = 0; i < n; ++i)
    std::copy_n(x.data<float>() + (n - 1 - i) * row, row, y.data<float>() + i * row);
  return y;
}
Tensors reversed(const Tensors& parts) {
  Tensors all;
  for (const Tensor& p : parts) all.push_back(reversed(p));
  return all;
}

// x with c added to each element of row or column `which`.
Tensor shifted(const Tensor& x, bool row, std::int64_t which, float c) {
  const Tensor y = x.clone();
  for (std::int64_t i = 0; i < y.numel(); ++i)
    if ((row ? i / kWidth : i % kWidth) == which) y.data<float>()[i] += c;
  return y;
}

TEST_CASE("linear variants equal their quadratic form whose rows are distributions") {
  const Tensors parts = inputs();
  const auto &q = parts[0], &k = parts[1], &v = parts[2];
  CHECK(difference(run_layer(reduced("linear_elu"), parts),
                   quadratic_form(mapped(q, elu1), mapped(k, elu1), v)) < 1e-5);
  CHECK(difference(run_layer(reduced("efficient"), parts),
                   quadratic_form(softmax_rows(rows_of(q)), softmax_columns(k), v, false)) < 1e-5);
  O kerformer = reduced("kerformer");
  kerformer.se = false;
  CHECK(difference(run_layer(kerformer, parts),
                   quadratic_form(mapped(q, sigmoid), softmax_columns(k), v)) < 1e-5);
  kerformer.feature_axis = true;
  CHECK(difference(run_layer(kerformer, parts),
                   quadratic_form(mapped(q, sigmoid), softmax_rows(rows_of(k)), v)) < 1e-5);
  const auto cosine = [](const Tensor& x) {
    std::vector<Values> rows = rows_of(x);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double angle = std::numbers::pi * static_cast<double>(i + 1) / (2 * kTokens);
      Values both;
      for (const double f : {std::cos(angle), std::sin(angle)})
        for (const double value : rows[i]) both.push_back(f * std::max(value, 0.0));
      rows[i] = both;
    }
    return rows;
  };
  CHECK(difference(run_layer(reduced("cosformer"), parts),
                   quadratic_form(cosine(q), cosine(k), v)) < 1e-5);

  Layer favor(reduced("favor"), kTokens, 1, kWidth);
  const auto features = [&](const Tensor& x, bool keys) {
    std::vector<Values> products;
    double top = -1e9;
    const double root = std::pow(kWidth, 0.25);
    for (const Values& row : rows_of(x)) {
      products.emplace_back();
      for (const Values& direction : rows_of(favor.value("omega")))
        products.back().push_back(dot(row, direction) / root);
      for (const double p : products.back()) top = std::max(top, p);
    }
    const std::vector<Values> rows = rows_of(x);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double own = *std::max_element(products[i].begin(), products[i].end());
      for (double& p : products[i])
        p = std::exp(p - dot(rows[i], rows[i]) / (2 * root * root) - (keys ? top : own)) + 1e-4;
    }
    return products;
  };
  CHECK(difference(favor(parts), quadratic_form(features(q, false), features(k, true), v)) < 1e-5);
}

TEST_CASE("mlk equals its quadratic form and with one key linear_elu") {
  const Tensors parts = inputs(4);
  O o = reduced("mlk");
  Layer layer(o, kTokens, 1, kWidth, 2);
  layer.set("pi", {0.3, -0.4});
  const double share = sigmoid(0.7);
  const auto mixture = [&](bool normed) {
    const auto feature = [&](const Tensor& x) {
      std::vector<Values> rows = mapped(x, elu1);
      for (Values& row : rows) {
        double sum = 0;
        for (const double value : row) sum += value;
        for (double& value : row) value /= normed ? sum : 1;
      }
      return rows;
    };
    std::vector<Values> mixed = feature(parts[1]), second = feature(parts[3]);
    for (std::size_t j = 0; j < mixed.size(); ++j)
      for (std::size_t c = 0; c < mixed[j].size(); ++c)
        mixed[j][c] = share * mixed[j][c] + (1 - share) * second[j][c];
    return quadratic_form(feature(parts[0]), mixed, parts[2]);
  };
  CHECK(difference(layer(parts), mixture(false)) < 1e-5);
  o.feature_norm = true;
  Layer normed(o, kTokens, 1, kWidth, 2);
  normed.set("pi", {0.3, -0.4});
  CHECK(difference(normed(parts), mixture(true)) < 1e-5);
  O one = reduced("mlk");
  one.components = 1;
  CHECK(difference(run_layer(one, inputs()), run_layer(reduced("linear_elu"), inputs())) < 1e-6);
}

TEST_CASE("kerformer: constant gates change nothing but learned ones see positions") {
  const Tensors parts = inputs();
  O without = reduced("kerformer");
  without.se = false;
  const Tensor plain = run_layer(without, parts);
  CHECK(difference(reversed(run_layer(without, reversed(parts))), plain) < 1e-6);
  Layer gated(reduced("kerformer"), kTokens, 1, kWidth);
  gated.set("se.fc2.weight", Values(kTokens * 3, 0.0));
  gated.set("se.fc2.bias", Values(kTokens, 0.8));
  CHECK(difference(gated(parts), plain) < 1e-6);
  gated.randomize(5, -3, 3);
  CHECK(difference(gated(parts), plain) > 1e-3);
  CHECK(difference(reversed(gated(reversed(parts))), gated(parts)) > 1e-3);
}

TEST_CASE("kerformer: constants along the softmax's axis of K change nothing") {
  const Tensors parts = inputs();
  for (const bool feature : {false, true}) {
    INFO(feature);
    O o = reduced("kerformer");
    o.feature_axis = feature;
    o.squeeze = feature ? O::Squeeze::max : O::Squeeze::mean;
    Layer layer(o, kTokens, 1, kWidth);
    layer.randomize(5, -2, 2);
    const Tensor out = layer(parts);
    CHECK(difference(layer({parts[0], shifted(parts[1], feature, 2, 1.5f), parts[2]}), out) < 1e-5);
    CHECK(difference(layer({parts[0], shifted(parts[1], !feature, 2, 1.5f), parts[2]}), out) >
          1e-3);
    // convex hull of the values
    const auto values = transposed(rows_of(parts[2])), outputs = transposed(rows_of(out));
    for (std::size_t c = 0; c < values.size(); ++c)
      for (const double o_c : outputs[c]) {
        CHECK(o_c <= *std::max_element(values[c].begin(), values[c].end()) + 1e-6);
        CHECK(o_c >= *std::min_element(values[c].begin(), values[c].end()) - 1e-6);
      }
  }
}

TEST_CASE("kerformer: over features a mean squeeze carries no input") {
  const Tensors parts = inputs();
  O o = reduced("kerformer");
  o.feature_axis = true;
  Layer layer(o, kTokens, 1, kWidth);
  layer.randomize(5, -2, 2);
  // every z is 1 / D, so the gates follow from the weights alone
  const auto w1 = rows_of(layer.value("se.fc1.weight")), w2 = rows_of(layer.value("se.fc2.weight"));
  const Values b1 = layer.value("se.fc1.bias").to(DType::f64).to_vector<double>();
  const Values b2 = layer.value("se.fc2.bias").to(DType::f64).to_vector<double>();
  const Values z(kTokens, 1.0 / kWidth);
  Values hidden;
  for (std::size_t h = 0; h < w1.size(); ++h) hidden.push_back(dot(w1[h], z) + b1[h]);
  std::vector<Values> keys = softmax_rows(rows_of(parts[1]));
  for (std::size_t j = 0; j < keys.size(); ++j)
    for (double& value : keys[j]) value *= sigmoid(dot(w2[j], hidden) + b2[j]);
  CHECK(difference(layer(parts), quadratic_form(mapped(parts[0], sigmoid), keys, parts[2])) < 1e-5);
}

TEST_CASE("favor: rows of omega are orthogonal in blocks and drawn anew as told") {
  O o = reduced("favor");
  o.redraw = 10;
  Layer layer(o, kTokens, 1, 8);
  const auto rows = rows_of(layer.value("omega"));
  CHECK(rows.size() == 16);  // floor(8 ln 8)
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (i / 8 == j / 8)
        CHECK(std::abs(dot(rows[i], rows[j])) <
              1e-5 * std::sqrt(dot(rows[i], rows[i]) * dot(rows[j], rows[j])));
  const Values before = layer.value("omega").to(DType::f64).to_vector<double>();
  for (const std::int64_t step : {0, 1, 9}) layer.attention->begin_step(step);
  CHECK(difference(layer.value("omega"), before) == 0);
  layer.attention->begin_step(10);
  const Tensor second = layer.value("omega").clone();
  CHECK(difference(second, before) > 0.1);
  layer.attention->begin_step(20);
  CHECK(difference(layer.value("omega"), second) > 0.1);
  layer.attention->begin_step(10);  // a function of the step alone
  CHECK(difference(layer.value("omega"), second) == 0);
  O own = reduced("favor");
  own.features = 5;
  CHECK(Layer(own, kTokens, 1, 8).value("omega").shape() == Shape{5, 8});
}

TEST_CASE("favor: without eps the shift is free and draws average to the softmax kernel") {
  using Shift = ops::FavorFeatures::Shift;
  O o = reduced("favor");
  o.redraw = 1;
  Layer layer(o, kTokens, 1, kWidth);
  const Tensor q = random({1, kTokens, kWidth}, 1), k = random({1, kTokens, kWidth}, 2),
               v = random({1, kTokens, kWidth}, 3);
  const auto features = [&](const Tensor& x, Shift shift) {
    const Tensor products =
        matmul(reshape(x, {1, kTokens, 1, kWidth}), transpose(layer.value("omega")));
    return favor_features(x, products, shift, 0);
  };
  CHECK(difference(
            linear_attention(features(q, Shift::token), features(k, Shift::sequence), v, 1, 0),
            linear_attention(features(q, Shift::none), features(k, Shift::none), v, 1, 0)) < 1e-5);
  constexpr int kDraws = 200;
  double sum = 0, squares = 0;
  for (int draw = 1; draw <= kDraws; ++draw) {
    layer.attention->begin_step(draw);
    const double estimate =
        dot(rows_of(features(q, Shift::none))[0], rows_of(features(k, Shift::none))[1]);
    sum += estimate;
    squares += estimate * estimate;
  }
  const double mean = sum / kDraws, error = std::sqrt((squares / kDraws - mean * mean) / kDraws);
  const double kernel = std::exp(dot(rows_of(q)[0], rows_of(k)[1]) / std::sqrt(kWidth));
  CHECK(std::abs(mean - kernel) < 3 * error);
  CHECK(error < 0.2 * kernel);
}

TEST_CASE("favor: the error against softmax falls about as the root of the features") {
  Tensors parts;
  for (std::uint64_t i = 1; i <= 3; ++i) parts.push_back(random({1, kTokens, kWidth}, i));
  const Tensor exact = run_layer(reduced("softmax"), parts);
  Values errors;
  for (const std::int64_t features : {16, 256}) {
    O o = reduced("favor");
    o.features = features;
    o.redraw = 1;
    Layer layer(o, kTokens, 1, kWidth);
    double sum = 0;
    for (int draw = 1; draw <= 40; ++draw) {
      layer.attention->begin_step(draw);
      const Values out = layer(parts).to(DType::f64).to_vector<double>();
      const Values softmax = exact.to(DType::f64).to_vector<double>();
      for (std::size_t i = 0; i < out.size(); ++i) sum += std::pow(out[i] - softmax[i], 2);
    }
    errors.push_back(std::sqrt(sum));
  }
  CHECK(errors[0] / errors[1] > 2);  // 4, were it exact
  CHECK(errors[0] / errors[1] < 8);
}

TEST_CASE("cosformer: a long period is the plain relu kernel and queries without relu give 0") {
  Tensors parts = inputs();
  const auto relu = [](double x) { return std::max(x, 0.0); };
  const Values plain = quadratic_form(mapped(parts[0], relu), mapped(parts[1], relu), parts[2]);
  const auto features = [&](const Tensor& x) { return cos_features(x, {}, 1, 10000000); };
  CHECK(difference(linear_attention(features(parts[0]), features(parts[1]), parts[2], 1, 1e-6),
                   plain) < 1e-5);
  CHECK(difference(run_layer(reduced("cosformer"), parts), plain) > 1e-3);
  for (std::int64_t c = 0; c < kWidth; ++c) parts[0].data<float>()[2 * kWidth + c] = -1;
  const Tensor out = run_layer(reduced("cosformer"), parts);
  for (std::int64_t c = 0; c < kWidth; ++c) CHECK(out.data<float>()[2 * kWidth + c] == 0);
}

TEST_CASE("linformer with identity projections is softmax") {
  O o = reduced("linformer");
  o.rows = kTokens;
  Layer layer(o, kTokens, 1, kWidth);
  Values identity(kTokens * kTokens, 0.0);
  for (std::size_t i = 0; i < kTokens; ++i) identity[i * kTokens + i] = 1;
  layer.set("proj_k", identity);
  layer.set("proj_v", identity);
  CHECK(difference(layer(inputs()), run_layer(reduced("softmax"), inputs())) < 1e-6);
}

TEST_CASE("xca ignores order and the scale of columns and its rows sum to 1") {
  Tensors parts = inputs();
  const Tensor out = run_layer(reduced("xca"), parts);
  CHECK(difference(reversed(run_layer(reduced("xca"), reversed(parts))), out) < 1e-6);
  Tensors scaled{parts[0].clone(), parts[1].clone(), parts[2]};
  for (std::int64_t i = 0; i < scaled[0].numel(); ++i) {
    scaled[0].data<float>()[i] *= static_cast<float>(1 + i % kWidth);
    scaled[1].data<float>()[i] *= static_cast<float>(7 - i % kWidth);
  }
  CHECK(difference(run_layer(reduced("xca"), scaled), out) < 1e-5);
  parts[2] = Tensor::full(parts[2].shape(), 1);
  CHECK(difference(run_layer(reduced("xca"), parts), parts[2]) < 1e-6);
}

TEST_CASE("ref_gmm multiplies each row by its log-density among the heads") {
  const std::int64_t heads = 3;
  O o = reduced("ref_gmm");
  Layer layer(o, kTokens, heads, 2);
  O plain = reduced("softmax");
  Layer softmax(plain, kTokens, heads, 2);
  Tensors parts;
  for (std::uint64_t i = 1; i <= 3; ++i) parts.push_back(random({1, kTokens, heads * 2}, i, -2, 2));
  const Values p = softmax(parts).to(DType::f64).to_vector<double>();
  Values expected(p.size());
  for (std::size_t t = 0; t < kTokens; ++t)
    for (std::size_t h = 0; h < 3; ++h) {
      double density = 0;
      for (std::size_t c = 0; c < 2; ++c) {
        double mean = 0, variance = 0;
        for (std::size_t g = 0; g < 3; ++g) mean += p[t * 6 + g * 2 + c] / 3;
        for (std::size_t g = 0; g < 3; ++g)
          variance += std::pow(p[t * 6 + g * 2 + c] - mean, 2) / 2;
        density -= 0.5 * (std::log(2 * std::numbers::pi * variance) +
                          std::pow(p[t * 6 + h * 2 + c] - mean, 2) / variance);
      }
      for (std::size_t c = 0; c < 2; ++c)
        expected[t * 6 + h * 2 + c] = p[t * 6 + h * 2 + c] * density;
    }
  CHECK(difference(layer(parts), expected) < 1e-4);
  CHECK_THROWS_WITH(Layer(o, kTokens, 1, 4), doctest::Contains("1 heads"));
}

}  // namespace attention_linear_test
