// The tree of lanes: its sums are the same whoever holds which lanes, and few are kept.
#include "train/step/lane_sums.h"

#include <doctest/doctest.h>

#include <bit>

#include "tensor/ops/binary.h"
#include "tensor/random.h"

namespace {

using namespace hg;

// Lanes of a parameter [1] that each group uses twice, so that its gradient arrives in two parts.
class Lanes {
 public:
  Lanes(std::int64_t lanes, std::int64_t groups) : lanes_(lanes), groups_(groups) {
    RandomStream stream(static_cast<std::uint64_t>(lanes), "lanes");
    parts_ = Tensor::empty({lanes, groups, 2});
    fill_normal(parts_, stream, 0, 1);
  }

  // What the lanes [first, first + size), cut off at the last, come to: the tree, told plainly.
  float expected(std::int64_t first, std::int64_t size) const {
    if (size == 1) return lane(first);
    const float left = expected(first, size / 2);
    const std::int64_t middle = first + size / 2;
    return middle < lanes_ ? left + expected(middle, size / 2) : left;
  }

  LaneSums sums_of(std::int64_t first, std::int64_t end) const {
    LaneSums sums(lanes_);
    for (std::int64_t l = first; l < end; ++l)
      sums.add(l, [&](Gradients& sum) {
        for (std::int64_t g = 0; g < groups_; ++g) add_group(l, g, sum);
      });
    return sums;
  }

  // The same, where gradients join their siblings' as soon as they are whole, and how many nodes
  // are left was known before.
  LaneSums joined_ahead(std::int64_t first, std::int64_t end) const {
    LaneSums sums(lanes_);
    for (std::int64_t l = first; l < end; ++l) {
      std::size_t left = 0;
      sums.add(l, [&](Gradients& sum) {
        for (std::int64_t g = 0; g < groups_; ++g) add_group(l, g, sum);
        sums.join(weight_.id());
        left = sums.left();
        CHECK(sums.nodes()[left - 1].gradients.has(weight_));
      });
      CHECK(sums.nodes().size() == left);
    }
    return sums;
  }
  std::vector<float> values(const LaneSums& sums) const {
    std::vector<float> all;
    for (const LaneSum& node : sums.nodes()) all.push_back(value(node));
    return all;
  }

  // By this many workers, each with consecutive lanes.
  float added_by(std::int64_t workers) const {
    LaneSums all(lanes_);
    for (std::int64_t w = 0; w < workers; ++w)
      all.add(sums_of(w * lanes_ / workers, (w + 1) * lanes_ / workers));
    REQUIRE(all.nodes().size() == std::min<std::size_t>(static_cast<std::size_t>(lanes_), 2));
    float sum = value(all.nodes()[0]);
    if (lanes_ > 1) sum += value(all.nodes()[1]);
    return sum;
  }

 private:
  float part(std::int64_t lane, std::int64_t group, int which) const {
    return parts_.data<float>()[2 * (lane * groups_ + group) + which];
  }
  float lane(std::int64_t l) const {
    float sum = part(l, 0, 1) + part(l, 0, 0);
    for (std::int64_t g = 1; g < groups_; ++g) sum += part(l, g, 1) + part(l, g, 0);
    return sum;
  }
  void add_group(std::int64_t lane, std::int64_t group, Gradients& sum) const {
    Tape tape;
    tape.watch(weight_);
    const Tensor ones = Tensor::full({1}, 1);
    const Tensor a = mul(weight_, Tensor::full({1}, part(lane, group, 0)));
    const Tensor y = add(a, mul(weight_, Tensor::full({1}, part(lane, group, 1))));
    tape.backward_into(sum, In(&y, 1), In(&ones, 1));
  }
  float value(const LaneSum& node) const { return node.gradients[weight_].item<float>(); }

  const std::int64_t lanes_, groups_;
  Tensor parts_;  // [lanes, groups, 2]
  const Tensor weight_ = Tensor::full({1}, 1);
};

}  // namespace

TEST_CASE("lanes come to the same bits whoever holds them") {
  bool order_matters = false;
  for (std::int64_t lanes = 1; lanes <= 20; ++lanes)
    for (const std::int64_t groups : {1, 3}) {
      const Lanes some(lanes, groups);
      const auto size = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(lanes)));
      const float expected = some.expected(0, size);
      float in_order = 0;
      for (std::int64_t l = 0; l < lanes; ++l) in_order += some.expected(l, 1);
      order_matters |= in_order != expected;
      for (std::int64_t workers = 1; workers <= lanes; ++workers) {
        INFO(lanes << " lanes of " << groups << " groups, " << workers << " workers");
        CHECK(some.added_by(workers) == expected);
      }
    }
  CHECK(order_matters);
}

TEST_CASE(
    "gradients that join their siblings' ahead come to the same bits, in the nodes foretold") {
  for (const std::int64_t lanes : {5, 16, 19})
    for (std::int64_t first = 0; first < lanes; ++first)
      for (std::int64_t end = first + 1; end <= lanes; ++end) {
        const Lanes some(lanes, 2);
        const LaneSums plain = some.sums_of(first, end);
        CHECK(some.values(some.joined_ahead(first, end)) == some.values(plain));
        const CachedVector<LaneNode> foretold = nodes_of(first, end, lanes);
        REQUIRE(foretold.size() == plain.nodes().size());
        for (std::size_t i = 0; i < foretold.size(); ++i) {
          CHECK(foretold[i].first == plain.nodes()[i].first);
          CHECK(foretold[i].end == plain.nodes()[i].end);
        }
      }
}

TEST_CASE("of lanes in a row only the nodes of the tree that cover them are kept") {
  const Lanes lanes(16, 1);
  const auto nodes = [&](std::int64_t first, std::int64_t end) {
    std::vector<std::pair<std::int64_t, std::int64_t>> found;
    const LaneSums sums = lanes.sums_of(first, end);
    for (const LaneSum& node : sums.nodes()) found.emplace_back(node.first, node.end);
    return found;
  };
  using Nodes = std::vector<std::pair<std::int64_t, std::int64_t>>;
  CHECK(nodes(0, 8) == Nodes{{0, 8}});
  CHECK(nodes(8, 16) == Nodes{{8, 16}});
  CHECK(nodes(4, 8) == Nodes{{4, 8}});
  CHECK(nodes(0, 7) == Nodes{{0, 4}, {4, 6}, {6, 7}});
  CHECK(nodes(5, 11) == Nodes{{5, 6}, {6, 8}, {8, 10}, {10, 11}});
  CHECK(nodes(0, 16) == Nodes{{0, 8}, {8, 16}});  // which the optimizer adds
}
