// Every variant against the vectors of nn/METHODS.md, appendix B.
#include "tensor/ops/favor_features.h"
#include "tensor/ops/linear_attention.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/view.h"
#include "tests/nn/attention_layer.h"

namespace attention_vectors_test {

using namespace hg;
using namespace hg::testing;
using O = AttentionOptions;

const Values kQ{1, 0, 0, 1, 1, 1}, kK{1, 2, 0, -1, .5, .5}, kV{1, -1, 0, 2, 3, .5},
    kK2{0, 1, 1, 1, -1, 0};
constexpr double kTolerance = 2e-6;

Tensors inputs(std::int64_t keys = 1) {
  Tensors parts{tokens(3, kQ), tokens(3, kK), tokens(3, kV)};
  if (keys == 2) parts.push_back(tokens(3, kK2));
  return parts;
}

void check(const O& o, const Values& expected) {
  INFO(o.variant);
  Layer layer(o, 3, 1, 2);
  CHECK(difference(layer(inputs()), expected) < kTolerance);
}

O mixture() {
  O o = variant("mgk");
  o.pi_shape = O::PiShape::head_pos;
  return o;
}
void check_mixture(const O& o, const Values& expected) {
  Layer layer(o, 3, 1, 2, 2);
  CHECK(difference(layer(inputs(2)), expected) < kTolerance);
}

TEST_CASE("softmax and rbf give the vectors of appendix B") {
  check(variant("softmax"), {1.415126, .153618, 1.390547, -.400477, 1.327999, -.583794});
  const Values rbf{1.751430, .738178, 1.910215, .261822, 1.879798, .034031};
  check(variant("rbf"), rbf);
  O prob = variant("prob");
  prob.steps = 0;
  check(prob, rbf);
}

TEST_CASE("mgk gives the vectors of appendix B") {
  O o = mixture();
  check_mixture(o, {1.320963, .728581, 1.455447, .282023, 1.236245, .402199});
  o.sigma2_scale = {1, 1.0 / 3};
  check_mixture(o, {1.421185, .847732, 1.436259, .054120, 1.168242, .559909});
  o.norm_const = true;
  check_mixture(o, {1.076404, .962110, 1.186418, -.055367, .745870, .872066});
  o = mixture();
  o.mode = O::Mode::hard_e;
  check_mixture(o, {1.478917, .654277, 1.383341, .324138, 1.266099, .675862});
}

TEST_CASE("soft_e learns the priors of appendix B") {
  O o = mixture();
  o.mode = O::Mode::soft_e;
  Layer layer(o, 3, 1, 2, 2);
  nn::PassRecord record;
  layer(inputs(2), {}, {nullptr, &record});
  REQUIRE(record.statistics.size() == 1);
  CHECK(record.statistics[0].learner == layer.attention.get());
  layer.attention->learn({record.statistics[0].values});
  CHECK(difference(layer.value("pi"), Values{.386826, 1 - .386826, .271842, 1 - .271842, .745144,
                                             1 - .745144}) < kTolerance);
}

TEST_CASE("fiak gives the vectors of appendix B") {
  const Values pi{.5, .25, 1.5, -.4, .1, 0, 1, 1, 1};
  O o = variant("fiak");
  Layer dot(o, 3, 1, 2);
  dot.set("pi", pi);
  CHECK(difference(dot(inputs()),
                   Values{1.966543, .073657, .970904, -.912711, 1.327999, -.583794}) < kTolerance);
  o.rbf_score = true;
  Layer rbf(o, 3, 1, 2);
  rbf.set("pi", pi);
  CHECK(difference(rbf(inputs()), Values{2.433947, .502367, .890260, -.670780, 1.879798, .034031}) <
        kTolerance);
  // the support {1,3}, {1,2}, {3}
  Layer pruned(variant("fiak"), 3, 1, 2);
  pruned.set("pi", {1, 0, 1, 1, 1, 0, 0, 0, 1});
  CHECK(difference(pruned(inputs()), Values{1.825042, -.381219, .892958, -.678875, 3, .5}) <
        kTolerance);
}

TEST_CASE("prob gives the vector of appendix B") {
  check(variant("prob"), {1.486588, .716984, 1.654563, .277998, 1.682963, .098857});
}

TEST_CASE("linear variants give the vectors of appendix B") {
  check(variant("linear_elu"), {1.478236, -.001027, 1.510281, -.160053, 1.494468, -.081581});
  check(variant("efficient"), {1.396710, -.152221, 1.342827, -.447741, 1.369768, -.299981});
  check(variant("cosformer"), {1.4, -.7, 1.4, -.7, 1.8, -.4});
  O o = variant("kerformer");
  o.se = false;
  check(o, {1.380710, -.239967, 1.358826, -.359994, 1.369768, -.299981});
  o.feature_axis = true;
  check(o, {1.304422, .586735, 1.362245, .413265, 1.333333, .5});
  Layer gated(variant("kerformer"), 3, 1, 2);
  gated.set("se.fc1.weight", {1, -1, .5});
  gated.set("se.fc2.weight", {1, 0, -1});
  CHECK(difference(gated(inputs()), Values{1.197664, -.426440, 1.187960, -.533695, 1.192760,
                                           -.480647}) < kTolerance);
}

TEST_CASE("favor gives the vector of appendix B") {
  using Shift = ops::FavorFeatures::Shift;
  const Tensor omega = Tensor::of<float>({4, 2}, {1, 0, 0, 1, 1, 1, -1, .5});
  const auto features = [&](const Tensor& x, Shift shift) {
    return favor_features(x, matmul(reshape(x, {1, 3, 1, 2}), transpose(omega)), shift, 0);
  };
  const Tensors parts = inputs();
  CHECK(difference(linear_attention(features(parts[0], Shift::token),
                                    features(parts[1], Shift::sequence), parts[2], 1, 0),
                   Values{1.814272, .178476, 1.824566, .137369, 1.823058, .065398}) < kTolerance);
}

TEST_CASE("linformer and xca give the vectors of appendix B") {
  O o = variant("linformer");
  o.rows = 2;
  Layer linformer(o, 3, 1, 2);
  linformer.set("proj_k", {.5, .5, 0, 0, .5, .5});
  linformer.set("proj_v", {1, 0, 0, 0, .5, .5});
  CHECK(difference(linformer(inputs()),
                   Values{1.227960, .025821, 1.185220, -.166510, 1.165119, -.256963}) < kTolerance);
  check(variant("xca"), {.088352, .231019, .911648, .768981, 1.860440, 2.038774});
}

TEST_CASE("sparse maps give the weights of appendix B") {
  // q.k / sqrt(4) = z, and the values are one-hot
  const Tensor q = tokens(4, {2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0});
  const Tensor k = tokens(4, {1, 0, 0, 0, .5, 0, 0, 0, -.5, 0, 0, 0, .2, 0, 0, 0});
  const Tensor v = tokens(4, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  const std::vector<std::pair<const char*, Values>> known{
      {"sparsemax", {.75, .25, 0, 0}},
      {"entmax15", {.592625, .270214, .000393, .136768}},
      {"softmax", {.438791, .266140, .097907, .197161}}};
  for (const auto& [name, weights] : known) {
    INFO(name);
    Layer layer(variant(name), 4, 1, 4);
    Values rows;
    for (int i = 0; i < 4; ++i) rows.insert(rows.end(), weights.begin(), weights.end());
    CHECK(difference(layer({q, k, v}), rows) < kTolerance);
  }
}

}  // namespace attention_vectors_test
