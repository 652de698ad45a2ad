// What nn/METHODS.md, section 2.7, says must hold of prob.
#include "tensor/ops/key_update.h"
#include "tensor/ops/reduce.h"
#include "tests/nn/attention_layer.h"

namespace attention_prob_test {

using namespace hg;
using namespace hg::testing;
using O = AttentionOptions;

Tensors inputs() { return random_inputs({2, 7, 8}); }

Tensor run_layer(const O& o, const Tensors& parts) { return hg::testing::run_layer(o, parts, 2); }

TEST_CASE("prob without steps is rbf and a firm prior moves no key") {
  const Tensors parts = inputs();
  O o = variant("prob");
  o.steps = 0;
  const Tensor rbf = run_layer(variant("rbf"), parts);
  CHECK(same_bits(run_layer(o, parts), rbf));
  o.magnitude_prior = true;
  CHECK(difference(run_layer(o, parts), run_layer(variant("softmax"), parts)) < 1e-6);
  o = variant("prob");
  CHECK(difference(run_layer(o, parts), rbf) > 1e-3);
  o.steps = 3;
  o.theta = 1e9;
  CHECK(difference(run_layer(o, parts), rbf) < 1e-5);
}

TEST_CASE("prob: values are drawn to those of the tokens that answer to them") {
  const Tensors parts = inputs();
  const Tensor off = run_layer(variant("prob"), parts);
  O o = variant("prob");
  o.theta_v = 7, o.beta = 3;
  CHECK(same_bits(run_layer(o, parts), off));  // without the option they have no effect
  o.value_propagation = true;
  o.theta_v = 1e9, o.beta = 1;
  CHECK(difference(run_layer(o, parts), off) < 1e-5);
  o.theta_v = 1, o.beta = 0;
  CHECK(difference(run_layer(o, parts), off) < 1e-5);
  o.beta = 1;
  CHECK(difference(run_layer(o, parts), off) > 1e-3);

  // By hand: of one token alone; of two whose queries lie between both keys, so that all w are 1/2.
  const Tensor qkv = Tensor::of<float>({1, 1, 3}, {1, 2, 5});
  CHECK(key_update({.heads = 1, .theta = 0.5, .values = true, .beta = 4}, qkv, {}).item<float>() ==
        doctest::Approx(5));
  const Tensor two = Tensor::of<float>({1, 2, 3}, {0, 1, 6, 0, -1, 3});
  const auto values = key_update({.heads = 1, .values = true}, two, {}).to_vector<float>();
  CHECK(values[0] == doctest::Approx((6 + 0.5 * 6 + 0.5 * 3) / 2));
  CHECK(values[1] == doctest::Approx((3 + 0.5 * 6 + 0.5 * 3) / 2));
}

TEST_CASE("prob: a step never lowers the mixture's posterior") {
  const std::int64_t d = 3, n = 8;
  const Tensor qkv = random({1, n, 3 * d}, 4, -2, 2, DType::f64);
  const double precision = 1 / std::sqrt(static_cast<double>(d)), theta = 0.7;
  const auto at = [&](const Tensor& t, std::int64_t stride, std::int64_t i, std::int64_t c) {
    return t.data<double>()[i * stride + c];
  };
  const auto posterior = [&](const Tensor& keys) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      double density = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        double distance = 0;
        for (std::int64_t c = 0; c < d; ++c)
          distance += std::pow(at(qkv, 3 * d, i, c) - at(keys, d, j, c), 2);
        density += std::exp(-precision * distance / 2) / static_cast<double>(n);
      }
      sum += std::log(density);
    }
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t c = 0; c < d; ++c)
        sum -= theta / 2 * std::pow(at(keys, d, j, c) - at(qkv, 3 * d, j, d + c), 2);
    return sum;
  };
  const KeyUpdateOptions step{.heads = 1, .theta = theta};
  Tensor keys = split(qkv, {d, d, d}, 2)[1];
  double before = posterior(keys);
  for (int t = 0; t < 8; ++t) {
    keys = key_update(step, qkv, keys);
    const double now = posterior(keys);
    CHECK(now >= before - 1e-12);
    if (t == 0) CHECK(now > before + 1e-3);
    before = now;
  }
}

TEST_CASE("prob: a key that no query comes near stays where it is") {
  const Tensor qkv = random({1, 4, 9}, 3);
  for (std::int64_t c = 3; c < 6; ++c) qkv.data<float>()[9 + c] = 1e3f;  // the second token's key
  Tape tape;
  tape.watch(qkv);
  const Tensor keys = key_update({.heads = 1, .theta = 0}, qkv, {});
  for (std::int64_t c = 0; c < 3; ++c) CHECK(keys.data<float>()[3 + c] == 1e3f);
  const Gradients grads = tape.backward(sum_all(keys));
  for (std::int64_t c = 3; c < 6; ++c) CHECK(grads[qkv].data<float>()[9 + c] == 1);
  for (const float g : grads[qkv].to_vector<float>()) CHECK(std::isfinite(g));
}

}  // namespace attention_prob_test
