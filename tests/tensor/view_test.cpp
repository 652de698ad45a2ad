// Views share storage; only ops that say so read strided ones.
#include "tensor/ops/view.h"

#include <doctest/doctest.h>

#include <limits>

#include "tensor/ops/binary.h"
#include "tensor/ops/concat.h"
#include "tensor/ops/permute.h"
#include "tensor/ops/softmax.h"
#include "tensor/ops/unary.h"

using namespace hg;

namespace {

Tensor counting(const Shape& shape) {
  Tensor t = Tensor::empty(shape);
  for (std::int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(i);
  return t;
}

}  // namespace

TEST_CASE("reshape keeps storage and fills in one open extent") {
  const Tensor x = counting({4, 6});
  const Tensor y = reshape(x, {2, -1, 3});
  CHECK(y.shape() == Shape{2, 4, 3});
  CHECK(y.strides() == Shape{12, 3, 1});
  CHECK(y.storage() == x.storage());
  CHECK(y.id() != x.id());
  CHECK(y.to_vector<float>() == x.to_vector<float>());
  CHECK(reshape(x, {-1}).shape() == Shape{24});
  CHECK(reshape(x, {24, -1}).shape() == Shape{24, 1});
  CHECK(reshape(Tensor::zeros({0, 3}), {-1, 5}).shape() == Shape{0, 5});
  CHECK(reshape(Tensor::zeros({1}), {}).rank() == 0);
}

TEST_CASE("reshape refuses what does not fit") {
  const Tensor x = counting({4, 6});
  CHECK_THROWS_WITH_AS(reshape(x, {5, 5}), "reshape: f32[4,6] does not fit into [5,5]", Error);
  CHECK_THROWS_WITH_AS(reshape(x, {5, -1}), "reshape: f32[4,6] does not fit into [5,-1]", Error);
  CHECK_THROWS_WITH_AS(reshape(x, {0, -1}), "reshape: f32[4,6] does not fit into [0,-1]", Error);
  CHECK_THROWS_WITH_AS(reshape(x, {-1, -1}), "reshape: more than one open extent in [-1,-1]",
                       Error);
  CHECK_THROWS_WITH_AS(reshape(x, {-4, -6}), "reshape: negative extent in [-4,-6]", Error);
  CHECK_THROWS_AS(reshape(x, {-2, -1}), Error);
}

TEST_CASE("reshape is not misled by extents whose product overflows") {
  const std::int64_t big = std::int64_t{1} << 32;
  CHECK_THROWS_AS(reshape(Tensor::zeros({0}), {big, big}), Error);  // 2^64 wraps to 0
  CHECK_THROWS_AS(reshape(Tensor::zeros({0}), {big, big, -1}), Error);
  CHECK_THROWS_AS(reshape(Tensor::zeros({2}), {big, big, 2}), Error);
  CHECK_THROWS_AS(reshape(Tensor::zeros({2}), {std::numeric_limits<std::int64_t>::min(), -1, 3}),
                  Error);
}

TEST_CASE("slice takes rows in place") {
  const Tensor x = counting({4, 3}), y = slice(x, 1, 3);
  CHECK(y.shape() == Shape{2, 3});
  CHECK(y.storage() == x.storage());
  CHECK(y.data<float>() == x.data<float>() + 3);
  CHECK(y.to_vector<float>() == std::vector<float>{3, 4, 5, 6, 7, 8});
  CHECK(slice(y, 1, 2).to_vector<float>() == std::vector<float>{6, 7, 8});
  CHECK(slice(x, 4, 4).numel() == 0);
  y.data<float>()[0] = -1;
  CHECK(x.data<float>()[3] == -1);
  CHECK_THROWS_WITH_AS(slice(x, 2, 5), "slice: rows 2 to 5 out of range for f32[4,3]", Error);
  CHECK_THROWS_WITH_AS(slice(x, -1, 2), "slice: rows -1 to 2 out of range for f32[4,3]", Error);
  CHECK_THROWS_WITH_AS(slice(x, 3, 2), "slice: rows 3 to 2 out of range for f32[4,3]", Error);
  CHECK_THROWS_WITH_AS(slice(Tensor::zeros({}), 0, 0),
                       "slice: input 0 must have 1 or more axes, got f32[]", Error);
}

TEST_CASE("transpose swaps the strides of the last two axes") {
  const Tensor x = counting({2, 3, 4}), y = transpose(x);
  CHECK(y.shape() == Shape{2, 4, 3});
  CHECK(y.strides() == Shape{12, 1, 4});
  CHECK(y.storage() == x.storage());
  CHECK_FALSE(y.contiguous());
  CHECK(transpose(y).contiguous());
  CHECK(transpose(y).to_vector<float>() == x.to_vector<float>());
  CHECK(transpose(counting({5, 1})).contiguous());
  CHECK_THROWS_WITH_AS(transpose(counting({3})),
                       "transpose: input 0 must have 2 or more axes, got f32[3]", Error);
}

TEST_CASE("contiguous copies a strided view and nothing else") {
  const Tensor x = counting({2, 3});
  CHECK(contiguous(x).id() == x.id());
  const Tensor y = contiguous(transpose(x));
  CHECK(y.contiguous());
  CHECK(y.storage() != x.storage());
  CHECK(y.to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("ops that need contiguous inputs refuse strided views") {
  const Tensor t = transpose(counting({2, 3})), c = counting({3, 2});
  const auto says = [](const char* op, int input) {
    return fmt::format("{}: input {} f32[3,2] is a strided view; pass contiguous(x)", op, input);
  };
  CHECK_THROWS_WITH_AS(softmax(t), says("softmax", 0).c_str(), Error);
  CHECK_THROWS_WITH_AS(add(t, c), says("add", 0).c_str(), Error);
  CHECK_THROWS_WITH_AS(mul(c, t), says("mul", 1).c_str(), Error);
  CHECK_THROWS_WITH_AS(tanh(t), says("tanh", 0).c_str(), Error);
  CHECK_THROWS_WITH_AS(reshape(t, {6}), says("reshape", 0).c_str(), Error);
  CHECK_THROWS_WITH_AS(slice(t, 0, 1), says("slice", 0).c_str(), Error);
  CHECK_THROWS_WITH_AS(concat({c, t}, 0), says("concat", 1).c_str(), Error);
  CHECK_THROWS_WITH_AS(split(t, {1, 2}, 0), says("split", 0).c_str(), Error);
}
