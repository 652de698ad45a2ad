// Merging of tokens: which merge, what becomes of sizes and means, and what a model saves.
#include "nn/merge.h"

#include "nn/vit.h"
#include "tensor/observer.h"
#include "tensor/run.h"
#include "tests/nn/attention_layer.h"

namespace merge_test {

using namespace hg;
using namespace hg::testing;
using nn::MergedTokens, nn::MergeOptions;
using Method = MergeOptions::Method;

// Keys of one head, two features each.
Tensor keys_of(const std::vector<double>& angles) {
  Values values;
  for (const double angle : angles) {
    values.push_back(std::cos(angle));
    values.push_back(std::sin(angle));
  }
  const auto n = static_cast<std::int64_t>(angles.size());
  return Tensor::of<double>({1, n, 1, 2}, values).to(DType::f32);
}
Tensor column(const Values& values) {
  return tokens(static_cast<std::int64_t>(values.size()), values);
}

TEST_CASE("the pairs that are most alike merge into their mean, weighed by sizes") {
  // patches 1, 3, 5 look among 2, 4: 1 is nearest to 4, 5 a little less to 2, 3 to nobody
  const Tensor keys = keys_of({0.7, 0.0, 1.0, 3.0, 0.1, 1.2});
  const MergedTokens one = merged(Method::tome, {column({9, 1, 2, 3, 4, 5}), {}}, keys, 4);
  CHECK(difference(one.x, Values{9, 2, 3, 2.5, 5}) < 1e-6);
  CHECK(difference(one.sizes, Values{1, 1, 1, 2, 1}) == 0);
  const MergedTokens two = merged(Method::tome, {column({9, 1, 2, 3, 4, 5}), {}}, keys, 3);
  CHECK(difference(two.x, Values{9, 3.5, 3, 2.5}) < 1e-6);
  CHECK(difference(two.sizes, Values{1, 2, 1, 2}) == 0);
  const MergedTokens again = merged(Method::tome, two, keys_of({0.7, 0, 0.1, 2}), 2);
  CHECK(difference(again.x, Values{9, (2 * 3.5 + 3) / 3, 2.5}) < 1e-6);
  CHECK(difference(again.sizes, Values{1, 3, 2}) == 0);
}

TEST_CASE("of equally like pairs the first merge") {
  const Tensor keys = keys_of({0.7, 0, 0, 0, 0});
  const MergedTokens one = merged(Method::tome, {column({9, 1, 2, 3, 4}), {}}, keys, 3);
  CHECK(difference(one.x, Values{9, 1.5, 3, 4}) < 1e-6);
}

TEST_CASE("clusters keep their weighted centres, and the class token stays") {
  const Tensor keys = keys_of({0.5, 0.0, 0.1, 2.0, 2.1, 0.05, 2.2});
  const MergedTokens two = merged(Method::pool, {column({9, 1, 2, 3, 4, 6, 5}), {}}, keys, 2);
  CHECK(difference(two.x, Values{9, 4, 3}) < 1e-6);  // 3, 4, 5 around 4; 1, 2, 6 around 6
  CHECK(difference(two.sizes, Values{1, 3, 3}) == 0);
}

TEST_CASE("a block leaves what it is told, at most half of its patches with tome") {
  MergeOptions o{Method::tome, 3, {}};
  CHECK(o.left_by(0, 9) == 6);
  CHECK(o.left_by(5, 4) == 2);
  CHECK(o.left_by(5, 1) == 1);
  o = {Method::pool, 0, {8, 2}};
  CHECK(o.left_by(0, 9) == 8);
  CHECK(o.left_by(0, 5) == 5);
  CHECK(o.left_by(1, 9) == 2);
  CHECK(MergeOptions{}.left_by(0, 9) == 9);
}

// Rows of the first products of attention and of the MLP, block by block.
class Lengths final : public Observer {
 public:
  void op_end(const OpCall& call) override {
    const std::string& op = call.scope->op;
    if ((op == "qkv" || op == "fc1") && call.out[0].rank() == 3) rows.push_back(call.out[0].dim(1));
  }
  std::vector<std::int64_t> rows;
};

TEST_CASE("sequences get shorter between attention and MLP, of dropped patches too") {
  nn::VitOptions o{.channels = 1,
                   .img_size = 16,
                   .patch_size = 4,
                   .width = 8,
                   .depth = 3,
                   .heads = 2,
                   .dim_head = 4,
                   .classes = 3};
  o.merge = {Method::tome, 4, {}};
  const Tensor images = random({2, 1, 16, 16}, 1);
  const Tensor keep = Tensor::of<std::int64_t>({2, 5}, {0, 3, 4, 8, 15, 1, 2, 3, 6, 7});
  const auto lengths = [&](const Tensor& kept) {
    const nn::Vit model(o, 1);
    Lengths seen;
    const ObserverGuard guard(seen);
    CHECK(std::isfinite(model.logits(images, {}, kept).to_vector<float>()[0]));
    return seen.rows;
  };
  using Rows = std::vector<std::int64_t>;
  CHECK(lengths({}) == Rows{17, 13, 13, 9, 9, 5});
  CHECK(lengths(keep) == Rows{6, 4, 4, 3, 3, 2});
  o.merge = {Method::pool, 0, {10, 7, 3}};
  CHECK(lengths({}) == Rows{17, 11, 11, 8, 8, 4});
  CHECK(lengths(keep) == Rows{6, 6, 6, 6, 6, 4});
  o.last_block = nn::VitOptions::LastBlock::cls;  // which then does not merge
  CHECK(lengths({}).back() == 1);
}

TEST_CASE("the last block of the class token alone gives the logits of the whole one") {
  nn::VitOptions o{.channels = 1,
                   .img_size = 16,
                   .patch_size = 4,
                   .width = 8,
                   .depth = 2,
                   .heads = 2,
                   .dim_head = 4,
                   .classes = 3};
  o.merge = {Method::tome, 5, {}};
  const Tensor images = random({2, 1, 16, 16}, 1);
  const Tensor whole = nn::Vit(o, 1).logits(images, {});
  o.last_block = nn::VitOptions::LastBlock::cls;
  CHECK(difference(nn::Vit(o, 1).logits(images, {}), whole) < 1e-5);
}

TEST_CASE("costs are counted without contents as with them") {
  nn::VitOptions o{.channels = 1,
                   .img_size = 16,
                   .patch_size = 4,
                   .width = 8,
                   .depth = 3,
                   .heads = 2,
                   .dim_head = 4,
                   .classes = 3};
  class Counter final : public Observer {
   public:
    void op_end(const OpCall& call) override { cost += call.op.cost(call.in, call.out).total(); }
    Cost cost;
  };
  for (const Method method : {Method::tome, Method::pool}) {
    o.merge = {method, 4, {}};
    const auto count = [&](const Tensor& images, bool hollow) {
      const nn::Vit model(o, 1, hollow);
      Counter counter;
      const ObserverGuard guard(counter);
      if (!hollow) return (model.logits(images, {}), counter.cost);
      const DryRun dry;
      return (model.logits(images, {}), counter.cost);
    };
    const Cost real = count(random({2, 1, 16, 16}, 1), false),
               foreseen = count(Tensor::hollow_of({DType::f32, {2, 1, 16, 16}}), true);
    CHECK(real.flops_mm == foreseen.flops_mm);
    CHECK(real.flops_ew == foreseen.flops_ew);
    CHECK(real.bytes_written == foreseen.bytes_written);
  }
}

}  // namespace merge_test
