// Attention within groups: who sees whom, by changing one token's value and looking at whose output
// changes.
#include <set>

#include "tests/nn/attention_layer.h"

namespace attention_grouped_test {

using namespace hg;
using namespace hg::testing;
using O = AttentionOptions;
using Pairs = std::set<std::pair<std::int64_t, std::int64_t>>;

constexpr std::int64_t kHeads = 2, kWidth = 4, kSide = 5, kTokens = kSide * kSide + 1;

// The pairs (query, key) of a head: whose output changes with whose value.
Pairs seen(Layer& layer, std::int64_t head, std::int64_t tokens = kTokens, const Tensor& ids = {}) {
  Tensors parts = random_inputs({1, tokens, kHeads * kWidth});
  const auto before = layer(parts, ids).to_vector<float>();
  // queries and keys come first; values are the last part of qkv, the second of qv
  const std::size_t values = layer.options.variant == "hash" ? 1 : 2;
  Pairs pairs;
  for (std::int64_t j = 0; j < tokens; ++j) {
    float& value = parts[values].data<float>()[j * kHeads * kWidth + head * kWidth];
    const float kept = std::exchange(value, value + 10);
    const auto after = layer(parts, ids).to_vector<float>();
    for (std::int64_t i = 0; i < tokens; ++i) {
      const auto at = static_cast<std::size_t>(i * kHeads * kWidth + head * kWidth);
      if (after[at] != before[at]) pairs.insert({i, j});
    }
    value = kept;
  }
  return pairs;
}

// All pairs of positions `ids` of which one is the class token or both are patches that `same` puts
// together.
template <class Same>
Pairs expected(const std::vector<std::int64_t>& ids, Same same) {
  Pairs pairs;
  const auto n = static_cast<std::int64_t>(ids.size());
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t p = ids[static_cast<std::size_t>(i)], q = ids[static_cast<std::size_t>(j)];
      if (p == 0 || q == 0 ||
          same((p - 1) / kSide, (p - 1) % kSide, (q - 1) / kSide, (q - 1) % kSide))
        pairs.insert({i, j});
    }
  return pairs;
}

std::vector<std::int64_t> everything() {
  std::vector<std::int64_t> ids(kTokens);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
  return ids;
}
const std::vector<std::int64_t> kSome{0, 1, 2, 5, 7, 11, 13, 21, 24, 25};

void check_seen(const O& o, std::int64_t head, auto same) {
  Layer layer(o, kTokens, kHeads, kWidth);
  CHECK(seen(layer, head) == expected(everything(), same));
  const Tensor ids = Tensor::of<std::int64_t>({1, static_cast<std::int64_t>(kSome.size())}, kSome);
  CHECK(seen(layer, head, ids.dim(1), ids) == expected(kSome, same));
}

TEST_CASE("patches see those of their window, which odd layers shift and the border cuts") {
  for (const auto& [layer, shift, side] : {std::tuple<std::int64_t, bool, std::int64_t>{0, true, 2},
                                           {1, true, 2},
                                           {1, true, 4},
                                           {1, false, 4},
                                           {2, true, 3},
                                           {1, true, 1},
                                           {0, true, 9}}) {
    O o = variant("window");
    o.layer = layer, o.shift = shift, o.window = side;
    const std::int64_t s = shift && layer % 2 == 1 ? side / 2 : 0;
    INFO("side " << side << " shifted by " << s);
    check_seen(o, 1, [&](auto r, auto c, auto r2, auto c2) {
      return (r + s) / side == (r2 + s) / side && (c + s) / side == (c2 + s) / side;
    });
  }
}

TEST_CASE("the first half of the heads sees along rows, the others along columns") {
  check_seen(variant("axial"), 0, [](auto r, auto, auto r2, auto) { return r == r2; });
  check_seen(variant("axial"), 1, [](auto, auto c, auto, auto c2) { return c == c2; });
}

TEST_CASE("a window as large as the grid is softmax") {
  O o = variant("window");
  o.window = kSide;
  const Tensors parts = random_inputs({2, kTokens, kHeads * kWidth});
  CHECK(difference(run_layer(o, parts, kHeads), run_layer(variant("softmax"), parts, kHeads)) <
        2e-6);
}

TEST_CASE("with hashes nobody sees itself, and buckets are symmetric") {
  O o = variant("hash");
  o.buckets = 4, o.rounds = 1;
  Layer layer(o, kTokens, kHeads, kWidth);
  const Pairs pairs = seen(layer, 0);
  std::int64_t patches = 0;
  for (std::int64_t i = 0; i < kTokens; ++i) {
    CHECK(!pairs.count({i, i}));
    if (i > 0) CHECK((pairs.count({0, i}) && pairs.count({i, 0})));
    for (std::int64_t j = 0; j < kTokens; ++j) {
      CHECK(pairs.count({i, j}) == pairs.count({j, i}));
      patches += i > 0 && j > 0 && pairs.count({i, j});
      for (std::int64_t k = 1; k < kTokens && i > 0 && j > 0 && i != k; ++k)  // one round: classes
        if (pairs.count({i, j}) && pairs.count({j, k})) CHECK(pairs.count({i, k}));
    }
  }
  CHECK(patches > 0);
  CHECK(patches < (kTokens - 1) * (kTokens - 2));
  o.rounds = 8;
  Layer more(o, kTokens, kHeads, kWidth);
  CHECK(seen(more, 0).size() > pairs.size());
}

TEST_CASE("a token alone sees itself") {
  O o = variant("hash");
  const Tensors parts = random_inputs({2, 1, kHeads * kWidth});
  CHECK(difference(run_layer(o, parts, kHeads), parts[1]) < 1e-6);  // qv: values come second
}

TEST_CASE("the rotations are of the seed and the layer's name, and do not change") {
  const Layer a(variant("hash"), kTokens, kHeads, kWidth),
      b(variant("hash"), kTokens, kHeads, kWidth);
  CHECK(a.value("rotations").shape() == Shape{2, kWidth, 4});
  CHECK(same_bits(a.value("rotations"), b.value("rotations")));
}

}  // namespace attention_grouped_test
