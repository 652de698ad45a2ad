// The ViT's parameters (names, shapes, start values, weight decay), pooling and dropout.
#include "nn/vit.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "autograd/tape.h"
#include "tensor/observer.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/unary.h"
#include "tests/nn/attention_layer.h"

namespace vit_test {

using namespace hg;
using nn::Parameter;
using nn::Vit;
using nn::VitOptions;

VitOptions small() {
  return {.channels = 2,
          .img_size = 12,
          .patch_size = 4,
          .width = 48,
          .depth = 2,
          .heads = 3,
          .dim_head = 20,
          .mlp_ratio = 2,
          .classes = 7};
}

Tensor ramp(std::int64_t batch) {
  const Tensor t = Tensor::empty({batch, 2, 12, 12});
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = static_cast<float>(i % 23) / 11 - 1;
  return t;
}

const Tensor& value(const Vit& model, const std::string& name) {
  const Parameter* p = model.parameters().find(name);
  REQUIRE(p != nullptr);
  return p->value;
}

struct Statistics {
  double mean = 0, stddev = 0, low = 0, high = 0;
};
Statistics statistics(const Tensor& t) {
  Statistics s{0, 0, 1e30, -1e30};
  for (const double x : t.to_vector<float>()) {
    s.mean += x;
    s.stddev += x * x;
    s.low = std::min(s.low, x);
    s.high = std::max(s.high, x);
  }
  const auto n = static_cast<double>(t.numel());
  s.mean /= n;
  s.stddev = std::sqrt(s.stddev / n - s.mean * s.mean);
  return s;
}

std::vector<float> logits(const Vit& model, const nn::Context& context = {}) {
  return model.logits(ramp(2), context).to_vector<float>();
}

TEST_CASE("parameters have timm's names and shapes, in its order") {
  std::vector<std::pair<std::string, Shape>> expected{{"cls_token", {1, 1, 48}},
                                                      {"pos_embed", {1, 10, 48}},
                                                      {"patch_embed.proj.weight", {48, 2, 4, 4}},
                                                      {"patch_embed.proj.bias", {48}}};
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    const std::vector<std::pair<std::string, Shape>> inside{
        {"norm1.weight", {48}},   {"norm1.bias", {48}},           {"attn.qkv.weight", {180, 48}},
        {"attn.qkv.bias", {180}}, {"attn.proj.weight", {48, 60}}, {"attn.proj.bias", {48}},
        {"norm2.weight", {48}},   {"norm2.bias", {48}},           {"mlp.fc1.weight", {96, 48}},
        {"mlp.fc1.bias", {96}},   {"mlp.fc2.weight", {48, 96}},   {"mlp.fc2.bias", {48}}};
    for (const auto& [name, shape] : inside) expected.emplace_back(block + name, shape);
  }
  for (const auto& [name, shape] :
       std::vector<std::pair<std::string, Shape>>{{"norm.weight", {48}},
                                                  {"norm.bias", {48}},
                                                  {"head.weight", {7, 48}},
                                                  {"head.bias", {7}}})
    expected.emplace_back(name, shape);

  const Vit model(small(), 1);
  std::vector<std::pair<std::string, Shape>> made;
  for (const Parameter& p : model.parameters().all()) made.emplace_back(p.name, p.value.shape());
  CHECK(made == expected);

  VitOptions without = small();
  without.qkv_bias = false;
  CHECK(Vit(without, 1).parameters().find("blocks.0.attn.qkv.bias") == nullptr);
  CHECK(Vit(without, 1).parameters().count() == model.parameters().count() - 2 * 180);
  CHECK(Vit(small(), 1, true).parameters().count() == model.parameters().count());
}

TEST_CASE("weight decay leaves out vectors, class token and positions") {
  const Vit model(small(), 1);
  for (const Parameter& p : model.parameters().all()) {
    INFO(p.name);
    const bool matrix = p.name.ends_with("weight") && p.value.rank() > 1;
    CHECK(p.decay == matrix);
  }
}

// The deviation that a tensor of two axes or more starts with.
double start_deviation(const Parameter& p, nn::WeightStart init) {
  const bool in_block = p.name.starts_with("blocks.");
  if (init == nn::WeightStart::timm || !in_block) return 0.02;
  return 0.7 / std::sqrt(static_cast<double>(p.value.dim(1)));
}

void check_start(nn::WeightStart init) {
  VitOptions options = small();
  options.init = init;
  options.positions = VitOptions::Positions::normal;
  const Vit model(options, 3);
  const double bound = 1 / std::sqrt(2 * 4 * 4);
  for (const Parameter& p : model.parameters().all()) {
    INFO(p.name);
    const Statistics s = statistics(p.value);
    const double n = static_cast<double>(p.value.numel());
    if (p.name == "patch_embed.proj.weight") {
      CHECK(s.low >= -bound);
      CHECK(s.high <= bound);
      CHECK(s.stddev == doctest::Approx(bound / std::sqrt(3)).epsilon(4 / std::sqrt(n)));
      CHECK(s.high > 0.98 * bound);
    } else if (p.value.rank() == 1) {
      const bool gamma = p.name.ends_with("weight");
      CHECK(s.low == (gamma ? 1 : 0));
      CHECK(s.high == (gamma ? 1 : 0));
    } else {  // four standard errors
      const double deviation = start_deviation(p, init);
      CHECK(std::abs(s.mean) < 4 * deviation / std::sqrt(n));
      CHECK(s.stddev == doctest::Approx(deviation).epsilon(4 / std::sqrt(2 * n)));
      CHECK(s.high > 1.5 * deviation);
    }
  }
}

double rms(const Tensor& t) {
  const Statistics s = statistics(t);
  return std::sqrt(s.mean * s.mean + s.stddev * s.stddev);
}

// What the blocks of a deep model do at the start.
struct Depth {
  std::vector<double> changes;    // of the tokens by each block, relative to them
  std::vector<double> gradients;  // of each block's fc1
};
Depth through_depth(std::int64_t width, nn::WeightStart init) {
  VitOptions o = small();
  o.width = width;
  o.depth = 12;
  o.heads = width / 16;
  o.dim_head = 16;
  o.mlp_ratio = 4;
  o.init = init;
  const Vit model(o, 3);
  Depth depth;
  Tensor x = model.sequence(model.embed(ramp(4)), {});
  for (std::int64_t i = 0; i < o.depth; ++i) {
    const Tensor y = model.encode(x, {}, {}, i, i + 1);
    depth.changes.push_back(rms(sub(y, x)) / rms(x));
    x = y;
  }
  Tape tape;
  for (const Parameter& p : model.parameters().all()) tape.watch(p.value);
  const Gradients gradients = tape.backward(sum_all(square(model.logits(ramp(4), {}))));
  for (std::int64_t i = 0; i < o.depth; ++i)
    depth.gradients.push_back(
        rms(gradients[value(model, fmt::format("blocks.{}.mlp.fc1.weight", i))]));
  return depth;
}

double largest(const std::vector<double>& x) { return *std::max_element(x.begin(), x.end()); }
double least(const std::vector<double>& x) { return *std::min_element(x.begin(), x.end()); }

TEST_CASE("parameters start as nn/METHODS.md, section 1 says") {
  check_start(nn::WeightStart::width);
  check_start(nn::WeightStart::timm);
}

TEST_CASE("positions start as sines and cosines of row and column") {
  const Vit model(small(), 3);
  const std::vector<float> x = value(model, "pos_embed").to_vector<float>();  // 3 x 3 patches
  const auto at = [&](int row, int column, int feature) {
    return x[static_cast<std::size_t>((1 + 3 * row + column) * 48 + feature)];
  };
  const double amplitude = 0.5 * std::sqrt(2.0), second = std::pow(10000, -1.0 / 12);
  for (int e = 0; e < 48; ++e) CHECK(x[static_cast<std::size_t>(e)] == 0);
  for (const auto& [row, column] : {std::pair{0, 0}, {1, 2}, {2, 1}}) {
    CHECK(at(row, column, 0) == doctest::Approx(amplitude * std::sin(row)));
    CHECK(at(row, column, 12) == doctest::Approx(amplitude * std::cos(row)));
    CHECK(at(row, column, 24) == doctest::Approx(amplitude * std::sin(column)));
    CHECK(at(row, column, 37) == doctest::Approx(amplitude * std::cos(second * column)));
  }
  CHECK(rms(value(model, "pos_embed")) == doctest::Approx(0.5 * std::sqrt(0.9)));
}

TEST_CASE("tokens and gradients keep their size through depth, at any width") {
  for (const std::int64_t width : {32, 64, 192}) {
    INFO("width " << width);
    const Depth d = through_depth(width, nn::WeightStart::width);
    CHECK(least(d.changes) > 0.2);
    CHECK(largest(d.changes) < 1);
    CHECK(largest(d.gradients) < 4 * least(d.gradients));
  }
  // What it is for: small weights leave a narrow model's tokens almost as they are.
  CHECK(largest(through_depth(32, nn::WeightStart::timm).changes) < 0.05);
}

TEST_CASE("start values follow from seed and name alone") {
  const Vit a(small(), 3), b(small(), 3), c(small(), 4);
  VitOptions deeper = small();
  deeper.depth = 3;
  const Vit d(deeper, 3);
  for (const Parameter& p : a.parameters().all()) {
    INFO(p.name);
    CHECK(value(b, p.name).to_vector<float>() == p.value.to_vector<float>());
    CHECK(value(d, p.name).to_vector<float>() == p.value.to_vector<float>());
    if (p.value.rank() > 1 && p.name != "pos_embed")
      CHECK(value(c, p.name).to_vector<float>() != p.value.to_vector<float>());
  }
  CHECK(value(a, "blocks.0.mlp.fc1.weight").to_vector<float>() !=
        value(a, "blocks.1.mlp.fc1.weight").to_vector<float>());
}

TEST_CASE("pool = cls reads the class token, pool = mean every token") {
  VitOptions mean = small();
  mean.pool = VitOptions::Pool::mean;
  const Vit by_token(small(), 1), by_mean(mean, 1);
  CHECK(logits(by_token) != logits(by_mean));
  // Without mixing and MLP, tokens do not influence one another: the class token's position matters
  // to both poolings, a patch's only to the mean.
  for (const Vit* model : {&by_token, &by_mean}) {
    for (const char* name : {"blocks.0.attn.proj.weight", "blocks.1.attn.proj.weight",
                             "blocks.0.mlp.fc2.weight", "blocks.1.mlp.fc2.weight"})
      std::fill_n(value(*model, name).data<float>(), value(*model, name).numel(), 0.0f);
    const bool all = model == &by_mean;
    float* const positions = value(*model, "pos_embed").data<float>();
    const auto before = logits(*model);
    positions[9 * 48 + 5] += 1;
    CHECK((logits(*model) != before) == all);
    positions[9 * 48 + 5] -= 1;
    positions[5] += 1;
    CHECK(logits(*model) != before);
  }
}

class ProductFlops final : public Observer {
 public:
  void op_end(const OpCall& call) override {
    sum += call.op.cost(call.in, call.out).total().flops_mm;
  }
  std::uint64_t sum = 0;
};

// Logits and all gradients of their sum of squares, in f64; FLOPs of products forward and backward.
struct Pass {
  std::vector<double> logits;
  std::map<std::string, std::vector<double>> gradients;
  std::uint64_t products = 0;
};
Pass pass_of(const VitOptions& o, const Tensor& keep) {
  const Vit model(o, 1, false, DType::f64);
  const Tensor images = Tensor::empty({2, 2, 12, 12}, DType::f64);
  const std::vector<float> pixels = ramp(2).to_vector<float>();
  std::copy(pixels.begin(), pixels.end(), images.data<double>());
  Pass pass;
  ProductFlops products;
  const ObserverGuard watching(products);
  Tape tape;
  for (const Parameter& p : model.parameters().all()) tape.watch(p.value);
  const Tensor logits = model.logits(images, {}, keep);
  const Gradients gradients = tape.backward(sum_all(square(logits)));
  pass.logits = logits.to_vector<double>();
  for (const Parameter& p : model.parameters().all())
    if (gradients.has(p.value)) pass.gradients[p.name] = gradients[p.value].to_vector<double>();
  pass.products = products.sum;
  return pass;
}

double farthest(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double distance = 0;
  for (std::size_t i = 0; i < a.size(); ++i) distance = std::max(distance, std::abs(a[i] - b[i]));
  return distance;
}

TEST_CASE("a last block of the class token alone gives the same logits and gradients") {
  const Tensor some = Tensor::of<std::int64_t>({2, 4}, {0, 2, 3, 7, 1, 4, 5, 8});
  for (const nn::AttentionOptions& attention : hg::testing::all_variants()) {
    if (!nn::attention_traits(attention).some_queries) continue;
    INFO(attention.variant);
    VitOptions all = small();
    all.attention = attention;
    VitOptions cls = all;
    cls.last_block = VitOptions::LastBlock::cls;
    for (const Tensor& keep : {Tensor(), some}) {
      const Pass whole = pass_of(all, keep), part = pass_of(cls, keep);
      CHECK(farthest(whole.logits, part.logits) < 1e-12);
      CHECK(whole.gradients.size() == part.gradients.size());
      for (const auto& [name, gradient] : whole.gradients) {
        INFO(name);
        CHECK(farthest(gradient, part.gradients.at(name)) < 1e-9);
      }
      CHECK(part.products < whole.products);
    }
  }
}

// Of N = 10 tokens: queries, output and MLP for one instead of all; products of scores and values,
// twice forward and five times backward (two scores are recomputed), for one row instead of N.
TEST_CASE("a last block of the class token alone costs what nn/METHODS.md, section 1 says") {
  VitOptions all = small();
  VitOptions cls = all;
  cls.last_block = VitOptions::LastBlock::cls;
  constexpr std::uint64_t kImages = 2, kOthers = 9, kTokens = 10, kWidth = 48, kInner = 60;
  const std::uint64_t row = 2 * kWidth * (2 * kInner + 2 * 2 * kWidth),
                      pairs = 2 * kTokens * kInner;
  CHECK(pass_of(all, {}).products - pass_of(cls, {}).products ==
        kImages * kOthers * (3 * row + 7 * pairs));
}

TEST_CASE("dropout acts in training alone, and as its stream says") {
  VitOptions dropping = small();
  dropping.dropout = 0.5;
  const Vit model(dropping, 1), plain(small(), 1);
  CHECK(logits(model) == logits(plain));
  RandomStream first(1, "dropout"), same(1, "dropout"), other(2, "dropout");
  const auto dropped = logits(model, {&first});
  CHECK(dropped != logits(plain));
  CHECK(dropped == logits(model, {&same}));
  CHECK(dropped != logits(model, {&other}));
  RandomStream unused(1, "dropout");
  CHECK(logits(plain, {&unused}) == logits(plain));
}

TEST_CASE("images and sizes that don't fit are refused with their shapes") {
  const Vit model(small(), 1);
  CHECK_THROWS_WITH(model.logits(Tensor::zeros({1, 3, 12, 12}), {}),
                    doctest::Contains("expected images [B,2,12,12]"));
  VitOptions odd = small();
  odd.patch_size = 5;
  CHECK_THROWS_AS(Vit(odd, 1), Error);
  odd = small();
  odd.depth = 0;
  CHECK_THROWS_AS(Vit(odd, 1), Error);
}

}  // namespace vit_test
