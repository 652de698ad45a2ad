// Attention over more tokens and channels than a tile holds, forward and backward on the device and
// on the CPU: the ops' own samples are smaller.
#include <doctest/doctest.h>

#include "tensor/ops/key_update.h"
#include "tensor/ops/quadratic_attention.h"
#include "tensor/run.h"
#include "tensor/transfer.h"
#include "tests/ops/compare.h"

namespace hg {
namespace {

using S = SampleInput;
using O = QuadraticOptions;

constexpr double kTolerance = 1e-4;

Tensors moved(In tensors, Device device) {
  Tensors there;
  for (const Tensor& t : tensors) there.push_back(t.defined() ? to_device(t, device) : t);
  return there;
}

void check_same(In expected, In got) {
  REQUIRE(expected.size() == got.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("tensor " << i);
    REQUIRE(expected[i].defined() == got[i].defined());
    if (!got[i].defined()) continue;
    const Tensor here = to_device(got[i], Device::cpu);
    testing::check_outputs({&here, 1}, testing::as_references<double>({&expected[i], 1}),
                           kTolerance);
  }
}

void check_on_both(const Op& op, const std::vector<S>& inputs) {
  const Tensors in = make_inputs({op.clone(), inputs}, DType::f32);
  const Tensors out = run(op, in), in_there = moved(in, Device::cuda),
                out_there = run(op, in_there);
  check_same(out, out_there);
  std::vector<S> like;
  for (const Tensor& t : out) like.push_back(S::uniform(t.shape()));
  Tensors grads = make_inputs({op.clone(), like}, DType::f32);
  for (std::size_t i = 0; i < grads.size(); ++i)
    if (op.auxiliary_outputs().has(i)) grads[i] = Tensor();
  Indices need;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (is_float(in[i].dtype())) need.bits |= std::uint64_t{1} << i;
  const Tensors grads_there = moved(grads, Device::cuda);
  check_same(op.grad({in, out, grads, need}), op.grad({in_there, out_there, grads_there, need}));
}

TEST_CASE("quadratic attention of several tiles is the same on the CUDA device") {
  const S qkv = S::uniform({2, 37, 3 * 2 * 40});
  const S keys = S::uniform({2, 37, 2 * 40});
  SUBCASE("dropout") {
    check_on_both(ops::QuadraticAttention(O{.heads = 2, .dropout = 0.2, .key = 9}), {qkv});
  }
  SUBCASE("three Gaussian keys a token, priors by key") {
    check_on_both(ops::QuadraticAttention(O{.heads = 2,
                                            .extra_keys = 2,
                                            .score = O::Score::rbf,
                                            .prior = O::Prior::plain,
                                            .ids = true,
                                            .variance = {5, 6, 9},
                                            .norm_const = true,
                                            .likelihood = true,
                                            .responsibilities = true,
                                            .spread = O::Spread::entropy}),
                  {qkv, keys, keys, S::uniform({2, 1, 50, 3}, 0.1, 1), S::integers({2, 37}, 50)});
  }
  SUBCASE("the best of two keys") {
    check_on_both(ops::QuadraticAttention(
                      O{.heads = 2, .extra_keys = 1, .score = O::Score::rbf, .map = O::Map::best}),
                  {qkv, keys});
  }
  SUBCASE("priors by pair") {
    check_on_both(ops::QuadraticAttention(O{.heads = 2, .prior = O::Prior::clipped}),
                  {qkv, S::uniform({2, 37, 37, 1}, -1.2, 1.2)});
  }
  SUBCASE("priors by pair of tokens whose positions come several times") {
    check_on_both(ops::QuadraticAttention(O{.heads = 2, .prior = O::Prior::clipped, .ids = true}),
                  {qkv, S::uniform({2, 12, 12, 1}, -1.2, 1.2), S::integers({2, 37}, 12)});
  }
  SUBCASE("sparse maps") {
    for (const O::Map map : {O::Map::sparsemax, O::Map::entmax15})
      check_on_both(
          ops::QuadraticAttention(O{.heads = 2, .map = map, .spread = O::Spread::squares}),
          {S::uniform({2, 37, 3 * 2 * 40}, -3, 3)});
  }
  SUBCASE("the widest heads, each query before its keys") {
    check_on_both(ops::QuadraticAttention(O{.heads = 1, .causal = true}),
                  {S::uniform({1, 35, 3 * 128})});
  }
}

TEST_CASE("keys of several tiles are updated to the same on the CUDA device") {
  const S qkv = S::uniform({2, 37, 3 * 2 * 40}), keys = S::uniform({2, 37, 2 * 40});
  check_on_both(ops::KeyUpdate({.heads = 2, .theta = 0.5}), {qkv});
  check_on_both(ops::KeyUpdate({.heads = 2, .stop_gradient = true}), {qkv, keys});
}

// A row without a positive prior gives 0, and nothing flows back through it.
TEST_CASE("an empty row of priors is nothing on the CUDA device, too") {
  const O options{.heads = 1, .prior = O::Prior::clipped};
  const Tensor prior = Tensor::of<float>({1, 3, 3, 1}, {1, 0, .5f, 0, 0, 0, 0, .3f, 0});
  const ops::QuadraticAttention op(options);
  Tensors in = make_inputs({op.clone(), {S::uniform({1, 3, 6})}}, DType::f32);
  in.push_back(prior);
  const Tensors in_there = moved(in, Device::cuda);
  const Tensors out = run(op, in), out_there = run(op, in_there);
  check_same(out, out_there);
  CHECK(to_device(out_there[0], Device::cpu).to_vector<float>()[2] == 0);
  const Tensors grads{Tensor::full({1, 3, 2}, 1), Tensor()};
  const Tensors grads_there = moved(grads, Device::cuda);
  check_same(op.grad({in, out, grads, {0, 1}}),
             op.grad({in_there, out_there, grads_there, {0, 1}}));
}

}  // namespace
}  // namespace hg
