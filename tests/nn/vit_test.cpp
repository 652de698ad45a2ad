// The ViT's parameters (names, shapes, start values, weight decay), pooling and dropout.
#include "nn/vit.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

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

TEST_CASE("parameters start as nn/METHODS.md, section 1 says") {
  const Vit model(small(), 3);
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
      CHECK(std::abs(s.mean) < 4 * 0.02 / std::sqrt(n));
      CHECK(s.stddev == doctest::Approx(0.02).epsilon(4 / std::sqrt(2 * n)));
      CHECK(s.high > 0.03);
    }
  }
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
    if (p.value.rank() > 1)
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
