// Messages: the op, the fault, and what was really passed.
#include "tensor/base/error.h"

#include <doctest/doctest.h>

#include <limits>

#include "tensor/ops/binary.h"
#include "tensor/ops/concat.h"
#include "tensor/ops/permute.h"
#include "tensor/ops/softmax.h"
#include "tensor/ops/unary.h"
#include "tensor/run.h"

using namespace hg;

TEST_CASE("fail and require name who failed") {
  CHECK_THROWS_WITH_AS(fail("loader", "no file {} in {}", "a", 3), "loader: no file a in 3", Error);
  CHECK_THROWS_WITH_AS(require(false, "x", "y"), "x: y", Error);
  CHECK_NOTHROW(require(true, "x", "y"));
}

TEST_CASE("softmax names axis and shape") {
  const Tensor x = Tensor::zeros({2, 197, 64});
  CHECK_THROWS_WITH_AS(softmax(x, 3), "softmax: axis 3 out of range for [2,197,64]", Error);
  CHECK_THROWS_WITH_AS(softmax(x, -4), "softmax: axis -4 out of range for [2,197,64]", Error);
  CHECK_THROWS_WITH_AS(softmax(Tensor::zeros({2}, DType::i64)),
                       "softmax: input 0 must be f32 or f64, got i64[2]", Error);
}

TEST_CASE("binary ops name both operands") {
  const Tensor a = Tensor::zeros({2, 3}), b = Tensor::zeros({3, 2});
  CHECK_THROWS_WITH_AS(add(a, b), "add: input 1 must be [2,3], got f32[3,2]", Error);
  CHECK_THROWS_WITH_AS(div(a, Tensor::zeros({2, 3}, DType::f64)),
                       "div: inputs differ in type: f32[2,3] and f64[2,3]", Error);
  CHECK_THROWS_WITH_AS(sub(a, Tensor()), "sub: input 1 is undefined", Error);
  CHECK_THROWS_WITH_AS(mul(a, a.hollow()), "mul: input 1 f32[2,3] has no contents", Error);
  CHECK_THROWS_WITH_AS(run(ops::Binary(ops::Binary::Kind::add), {a}),
                       "add: expected 2 inputs, got 1", Error);
}

TEST_CASE("clamp names an empty range") {
  CHECK_THROWS_WITH_AS(clamp(Tensor::zeros({2}), 1, -1), "clamp: empty range [1, -1]", Error);
}

TEST_CASE("concat and split name the pieces") {
  const Tensor a = Tensor::zeros({2, 3});
  CHECK_THROWS_WITH_AS(concat({a, Tensor::zeros({3, 3})}, 1),
                       "concat: cannot join f32[2,3] and f32[3,3] along axis 1", Error);
  CHECK_THROWS_WITH_AS(concat({}, 0), "concat: nothing to join", Error);
  CHECK_THROWS_WITH_AS(concat({a, a}, 2), "concat: axis 2 out of range for [2,3]", Error);
  CHECK_THROWS_WITH_AS(split(a, {1, 1}, 1), "split: pieces of 2 in all along axis 1 of f32[2,3]",
                       Error);
  CHECK_THROWS_WITH_AS(split(a, {2, 2}, 1), "split: pieces exceed axis 1 of f32[2,3]", Error);
  CHECK_THROWS_WITH_AS(split(a, {2, -1}, 1), "split: negative piece of -1", Error);
  CHECK_THROWS_AS(split(a, {}, 1), Error);
}

TEST_CASE("split is not misled by pieces whose sum overflows") {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_AS(split(Tensor::zeros({3}), {kMax, kMax, 5}, 0), Error);  // 2^64 + 3 wraps to 3
}

TEST_CASE("permute names the order") {
  const Tensor a = Tensor::zeros({2, 3});
  CHECK_THROWS_WITH_AS(permute(a, {0, 0}), "permute: [0,0] is no order of the axes of f32[2,3]",
                       Error);
  CHECK_THROWS_WITH_AS(permute(a, {0, 2}), "permute: [0,2] is no order of the axes of f32[2,3]",
                       Error);
  CHECK_THROWS_WITH_AS(permute(a, {0, 1, 2}), "permute: input 0 must have 3 axes, got f32[2,3]",
                       Error);
}
