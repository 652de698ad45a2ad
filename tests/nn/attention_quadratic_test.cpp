// What nn/METHODS.md, sections 2.1 - 2.6 and 2.15 say must hold of the quadratic variants.
#include "tensor/ops/reduce.h"
#include "tests/nn/attention_layer.h"

namespace attention_quadratic_test {

using namespace hg;
using namespace hg::testing;
using O = AttentionOptions;

constexpr std::int64_t kTokens = 7, kHeads = 2, kWidth = 4;

// q, k, v and further keys of two images
Tensors inputs(int count = 3, std::uint64_t seed = 1) {
  return random_inputs({2, kTokens, kHeads * kWidth}, count, seed);
}

Tensor run_layer(const O& o, const Tensors& parts) {
  return hg::testing::run_layer(o, parts, kHeads);
}

// All tokens like the first one.
Tensor repeated(const Tensor& x) {
  const Tensor y = x.clone();
  const std::int64_t row = x.dim(2);
  for (std::int64_t i = 0; i < x.dim(0) * x.dim(1); ++i)
    std::copy_n(x.data<float>() + i / x.dim(1) * x.dim(1) * row, row, y.data<float>() + i * row);
  return y;
}
Tensor plus(const Tensor& x, double c) {
  const Tensor y = x.clone();
  for (std::int64_t i = 0; i < y.numel(); ++i) y.data<float>()[i] += static_cast<float>(c);
  return y;
}
// Each head's part of each token scaled to length 1.
Tensor unit(const Tensor& x) {
  const Tensor y = x.clone();
  for (std::int64_t i = 0; i < y.numel(); i += kWidth) {
    float* const row = y.data<float>() + i;
    double sum = 0;
    for (std::int64_t c = 0; c < kWidth; ++c) sum += row[c] * row[c];
    for (std::int64_t c = 0; c < kWidth; ++c) row[c] /= static_cast<float>(std::sqrt(sum));
  }
  return y;
}
Tensor reversed(const Tensor& x) {
  const Tensor y = x.clone();
  const std::int64_t n = x.dim(1), row = x.dim(2);
  for (std::int64_t b = 0; b < x.dim(0); ++b)
    for (std::int64_t i = 0; i < n; ++i)
      std::copy_n(x.data<float>() + (b * n + n - 1 - i) * row, row,
                  y.data<float>() + (b * n + i) * row);
  return y;
}
Tensors reversed(const Tensors& parts) {
  Tensors all;
  for (const Tensor& p : parts) all.push_back(reversed(p));
  return all;
}

TEST_CASE("rows of weights sum to 1 for every quadratic variant") {
  for (const O& o : all_variants()) {
    if (!nn::attention_traits(o).quadratic || o.variant == "ref_gmm") continue;
    INFO(o.variant);
    const bool mixture = o.variant == "mgk" && !o.shift_keys;
    Tensors parts = inputs(mixture ? 4 : 3);
    parts[2] = Tensor::full(parts[2].shape(), 1);
    CHECK(difference(run_layer(o, parts), parts[2]) < 1e-6);
  }
}

TEST_CASE("softmax: equal keys give the mean and neither order nor a constant on a row matters") {
  Tensors parts = inputs();
  const Tensor out = run_layer(variant("softmax"), parts);
  CHECK(difference(reversed(run_layer(variant("softmax"), reversed(parts))), out) < 1e-6);
  // q.(k + c) adds q.c to a whole row
  CHECK(difference(run_layer(variant("softmax"), {parts[0], plus(parts[1], 3), parts[2]}), out) <
        1e-5);
  parts[1] = repeated(parts[1]);
  const Tensor equal = run_layer(variant("softmax"), parts), means = mean(parts[2], 1, true);
  for (std::int64_t i = 0; i < equal.numel(); ++i) {
    const std::int64_t row = parts[2].dim(2), b = i / (kTokens * row);
    CHECK(equal.data<float>()[i] ==
          doctest::Approx(means.data<float>()[b * row + i % row]).epsilon(1e-5));
  }
}

TEST_CASE("a sequence of one token returns its value") {
  for (const O& o : all_variants()) {
    if (!nn::attention_traits(o).quadratic || o.variant == "ref_gmm") continue;
    INFO(o.variant);
    const std::int64_t keys = o.variant == "mgk" && !o.shift_keys ? 2 : 1;
    Layer layer(o, 1, kHeads, kWidth, keys);
    Tensors parts;
    for (std::int64_t i = 0; i < 2 + keys; ++i)
      parts.push_back(random({1, 1, kHeads * kWidth}, static_cast<std::uint64_t>(i)));
    CHECK(difference(layer(parts), parts[2]) < 1e-6);
  }
}

TEST_CASE("a causal mask hides later tokens and their gradients") {
  O o = variant("softmax");
  o.causal = true;
  Layer causal(o, kTokens, kHeads, kWidth);
  const Tensors parts = inputs();
  Tape tape;
  for (const Tensor& p : parts) tape.watch(p);
  const Tensor out = causal(parts);
  // The output of the first three tokens is that of a sequence of three.
  const std::int64_t row = kHeads * kWidth;
  const Tensor three = Tensor::zeros(out.shape());
  for (std::int64_t b = 0; b < 2; ++b)
    std::fill_n(three.data<float>() + b * kTokens * row, 3 * row, 1.0f);
  const Gradients grads = tape.backward(In(&out, 1), In(&three, 1));
  for (const Tensor& p : parts)
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t i = 3 * row; i < kTokens * row; ++i)
        CHECK(grads[p].data<float>()[b * kTokens * row + i] == 0);
  Tensors cut;
  for (const Tensor& p : parts) cut.push_back(split(p, {3, kTokens - 3}, 1)[0]);
  Layer plain(variant("softmax"), 3, kHeads, kWidth);
  const Tensor last = split(plain(cut), {2, 1}, 1)[1];
  CHECK(difference(split(out, {2, 1, kTokens - 3}, 1)[1], last) < 1e-6);
}

TEST_CASE("cross-attention takes keys and values from another sequence") {
  nn::Parameters parameters(1);
  O o;
  o.width = 12, o.heads = kHeads, o.dim_head = kWidth, o.tokens = 20;
  const auto made = nn::make_attention(nn::Builder(parameters), o);
  const nn::Attention& layer = *made;
  const Tensor x = random({2, 3, 12}, 1), memory = random({2, 5, 12}, 2);
  CHECK(layer.cross(x, memory, {}).shape() == Shape{2, 3, 12});
  CHECK(difference(layer.cross(memory, memory, {}), layer(memory, {})) < 1e-6);
  const Tensor both = concat({x, memory}, 1);  // queries of x on its own keys and the memory's
  CHECK(difference(layer.cross(x, both, {}), split(layer(both, {}), {3, 5}, 1)[0]) < 1e-6);
  Tape tape;
  for (const nn::Parameter& p : parameters.all()) tape.watch(p.value);
  const Gradients grads = tape.backward(sum_all(layer.cross(x, memory, {})));
  for (const nn::Parameter& p : parameters.all()) CHECK(grads.has(p.value));
}

TEST_CASE("rbf is softmax where keys have one length and only there") {
  Tensors parts = inputs();
  CHECK(difference(run_layer(variant("rbf"), parts), run_layer(variant("softmax"), parts)) > 0.1);
  parts[1] = unit(parts[1]);
  CHECK(difference(run_layer(variant("rbf"), parts), run_layer(variant("softmax"), parts)) < 1e-6);
}

TEST_CASE("mgk of one key is rbf and equal keys count as one for any priors") {
  const Tensors parts = inputs();
  const Tensor rbf = run_layer(variant("rbf"), parts);
  O o = variant("mgk");
  o.components = 1;
  CHECK(same_bits(run_layer(o, parts), rbf));
  o.components = 2;
  o.pi_shape = O::PiShape::head_pos;
  o.pi_param = O::PiParam::clamp;
  Layer layer(o, kTokens, kHeads, kWidth, 2);
  Values pi;
  for (std::int64_t i = 0; i < kHeads * kTokens; ++i) {
    const double share = 0.1 + 0.1 * static_cast<double>(i % 5);
    pi.insert(pi.end(), {share, 0.7 - share});
  }
  layer.set("pi", pi);
  const Tensors twice{parts[0], parts[1], parts[2], parts[1]};
  CHECK(difference(layer(twice), rbf) < 1e-6);
  // A prior of 0 removes its key.
  for (std::size_t i = 0; i < pi.size(); ++i) pi[i] = i % 2 == 0;
  layer.set("pi", pi);
  const Tensors other{parts[0], parts[1], parts[2], random(parts[1].shape(), 9, -2, 2)};
  CHECK(difference(layer(other), rbf) < 1e-6);
}

TEST_CASE("mgk: hard_e is soft where the variances vanish") {
  const Tensors parts = inputs(4);
  O soft = variant("mgk");
  soft.sigma2_scale = {1e-3, 1e-3};
  O hard = soft;
  hard.mode = O::Mode::hard_e;
  CHECK(difference(run_layer(hard, parts), run_layer(soft, parts)) < 1e-4);
  soft.sigma2_scale = hard.sigma2_scale = {1, 1};
  CHECK(difference(run_layer(hard, parts), run_layer(soft, parts)) > 1e-2);
}

TEST_CASE("soft_e keeps the priors of a token summing to 1 and moves only in training") {
  for (const auto shape : {O::PiShape::head, O::PiShape::layer, O::PiShape::head_pos}) {
    O o = variant("mgk");
    o.mode = O::Mode::soft_e;
    o.pi_shape = shape;
    o.components = 3;
    Layer layer(o, kTokens, kHeads, kWidth, 3);
    const Values before = layer.value("pi").to(DType::f64).to_vector<double>();
    layer(inputs(5));
    CHECK(difference(layer.value("pi"), before) == 0);
    nn::PassRecord first, second;
    layer(inputs(5), {}, {nullptr, &first});
    layer(inputs(5, 20), {}, {nullptr, &second});
    layer.attention->learn({first.statistics[0].values, second.statistics[0].values});
    CHECK(difference(layer.value("pi"), before) > 1e-3);
    const Tensor sums = sum(layer.value("pi"), -1);
    for (const float s : sums.to_vector<float>()) CHECK(s == doctest::Approx(1).epsilon(1e-5));
    CHECK(layer.parameters.find("attn.pi") == nullptr);
    CHECK(layer.parameters.buffers().size() == 1);
  }
}

TEST_CASE("equal priors are softmax to the last bit with gradients") {
  const Tensors parts = inputs();
  const Tensor seed = random({2, kTokens, kHeads * kWidth}, 8);
  Tensors expected;
  for (const std::string name : {"softmax", "gmm", "fiak"}) {
    for (const double prior : {1.0, 0.3, 1 / std::sqrt(kTokens)}) {
      INFO(name << " " << prior);
      Layer layer(variant(name), kTokens, kHeads, kWidth);
      if (name != "softmax")
        layer.set("pi", Values(static_cast<std::size_t>(layer.value("pi").numel()), prior));
      Tape tape;
      for (const Tensor& p : parts) tape.watch(p);
      Tensors results{layer(parts)};
      const Gradients grads = tape.backward(In(&results[0], 1), In(&seed, 1));
      for (const Tensor& p : parts) results.push_back(grads[p]);
      if (expected.empty()) expected = results;
      for (std::size_t i = 0; i < results.size(); ++i) CHECK(same_bits(results[i], expected[i]));
    }
  }
}

TEST_CASE("priors: rows may be scaled and 0 masks and gmm is fiak with equal rows") {
  const Tensors parts = inputs();
  const std::int64_t n = kTokens;
  Layer fiak(variant("fiak"), n, kHeads, kWidth), gmm(variant("gmm"), n, kHeads, kWidth);
  Values keys(static_cast<std::size_t>(kHeads * n)),
      pairs(static_cast<std::size_t>(kHeads * n * n));
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = 0.1 + 0.05 * static_cast<double>(i % 6);
  const auto size = static_cast<std::size_t>(n);
  for (std::size_t i = 0; i < pairs.size(); ++i)
    pairs[i] = keys[i / (size * size) * size + i % size];
  gmm.set("pi", keys);
  fiak.set("pi", pairs);
  const Tensor out = gmm(parts);
  CHECK(difference(fiak(parts), out) < 1e-6);
  Values scaled = pairs;
  for (std::size_t i = 0; i < pairs.size(); ++i) scaled[i] *= i / size % 2 ? 0.5 : -2;
  fiak.set("pi", scaled);
  CHECK(difference(fiak(parts), out) < 1e-6);

  // without the last key: as in a sequence without it, whatever its score
  Values masked = pairs;
  for (std::size_t i = size - 1; i < pairs.size(); i += size) masked[i] = 0;
  fiak.set("pi", masked);
  Tensors huge = parts;
  huge[1] = parts[1].clone();
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t c = 0; c < kHeads * kWidth; ++c)
      huge[1].data<float>()[((b + 1) * n - 1) * kHeads * kWidth + c] = 1e4f;
  Tensors cut;
  for (const Tensor& p : parts) cut.push_back(split(p, {n - 1, 1}, 1)[0]);
  const Tensor shorter = gmm(cut);
  for (const Tensors& given : {parts, huge})
    CHECK(difference(split(fiak(given), {n - 1, 1}, 1)[0], shorter) < 1e-6);
}

TEST_CASE("a row without any prior gives 0 and no gradient") {
  const Tensors parts = inputs();
  Layer layer(variant("fiak"), kTokens, kHeads, kWidth);
  Values pi(static_cast<std::size_t>(kHeads * kTokens * kTokens), 0.5);
  for (std::int64_t j = 0; j < kTokens; ++j) pi[static_cast<std::size_t>(2 * kTokens + j)] = 0;
  layer.set("pi", pi);
  CHECK(layer.attention->empty_rows() == 1);
  Tape tape;
  for (const Tensor& p : parts) tape.watch(p);
  tape.watch(layer.value("pi"));
  const Tensor out = layer(parts), seed = Tensor::full(out.shape(), 1);
  const Gradients grads = tape.backward(In(&out, 1), In(&seed, 1));
  for (std::int64_t c = 0; c < kWidth; ++c) {
    CHECK(out.data<float>()[2 * kHeads * kWidth + c] == 0);
    CHECK(grads[parts[0]].data<float>()[2 * kHeads * kWidth + c] == 0);
    CHECK(out.data<float>()[2 * kHeads * kWidth + kWidth + c] != 0);  // the other head
  }
  for (const float g : grads[layer.value("pi")].to_vector<float>()) CHECK(std::isfinite(g));
}

TEST_CASE("sparse maps leave out far keys exactly") {
  Tensors parts = inputs();
  for (const char* name : {"sparsemax", "entmax15"}) {
    INFO(name);
    // one-hot values show the weights
    Layer layer(variant(name), 4, 1, 4);
    const Tensor v = tokens(4, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
    const Tensor q = random({1, 4, 4}, 3, -3, 3), k = random({1, 4, 4}, 4, -3, 3);
    const auto weights = layer({q, k, v}).to_vector<float>();
    CHECK(std::count(weights.begin(), weights.end(), 0.0f) > 2);
    for (const float w : weights) CHECK(w >= 0);
    CHECK(difference(reversed(run_layer(variant(name), reversed(parts))),
                     run_layer(variant(name), parts)) < 1e-5);
  }
}

TEST_CASE("dropout of weights acts in training alone and keeps the mean") {
  for (const char* name : {"softmax", "rbf", "gmm", "mgk", "entmax15", "linformer", "xca"}) {
    INFO(name);
    O o = variant(name);
    o.weight_dropout = 0.4;
    o.rows = 3;
    const std::int64_t keys = std::string(name) == "mgk" ? 2 : 1;
    Layer dropping(o, kTokens, kHeads, kWidth, keys);
    o.weight_dropout = 0;
    Layer plain(o, kTokens, kHeads, kWidth, keys);
    const Tensors parts = inputs(static_cast<int>(2 + keys));
    const Tensor expected = plain(parts);
    CHECK(same_bits(dropping(parts), expected));
    RandomStream first(1, "a"), again(1, "a"), stream(2, "a");
    const Tensor dropped = dropping(parts, {}, {&first});
    CHECK(same_bits(dropping(parts, {}, {&again}), dropped));
    CHECK(difference(dropped, expected) > 0.05);
    Values sums(static_cast<std::size_t>(expected.numel()), 0.0);
    constexpr int kPasses = 400;
    for (int pass = 0; pass < kPasses; ++pass) {
      const auto out = dropping(parts, {}, {&stream}).to_vector<float>();
      for (std::size_t i = 0; i < out.size(); ++i) sums[i] += out[i] / kPasses;
    }
    CHECK(difference(expected, sums) < 0.4);
  }
}

}  // namespace attention_quadratic_test
