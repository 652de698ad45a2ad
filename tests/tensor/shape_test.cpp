#include "tensor/shape.h"

#include <doctest/doctest.h>

#include <vector>

using namespace hg;

TEST_CASE("a shape holds up to six extents") {
  const Shape s{2, 197, 64};
  CHECK(s.rank() == 3);
  CHECK(s[1] == 197);
  CHECK(s.back() == 64);
  CHECK(s.numel() == 2 * 197 * 64);
  CHECK(s.product(1, 3) == 197 * 64);
  CHECK(s.product(1, 1) == 1);
  CHECK(s.slice(1, 3) == Shape{197, 64});
  CHECK(s != Shape{2, 197});
  CHECK(Shape{}.numel() == 1);
  CHECK(Shape{3, 0}.numel() == 0);
  CHECK(Shape{1, 2, 3, 4, 5, 6}.rank() == Shape::kMaxRank);
  CHECK_THROWS_WITH_AS(Shape({1, 2, 3, 4, 5, 6, 7}), "shape: more than 6 axes", Error);
}

TEST_CASE("extents can be erased") {
  Shape s{5, 2, 7, 3, 9};
  s.erase(0);
  s.erase(3);
  CHECK(s == Shape{2, 7, 3});
}

TEST_CASE("contiguous strides step by the product of the extents behind") {
  CHECK(Shape{2, 3, 4}.contiguous_strides() == Shape{12, 4, 1});
  CHECK(Shape{5}.contiguous_strides() == Shape{1});
  CHECK(Shape{}.contiguous_strides() == Shape{});
}

TEST_CASE("a shape is printed without spaces") {
  CHECK(to_string(Shape{2, 197, 64}) == "[2,197,64]");
  CHECK(to_string(Shape{}) == "[]");
  CHECK(fmt::format("{}", Shape{1}) == "[1]");
}

TEST_CASE("negative axes count from the end") {
  const Shape s{2, 197, 64};
  CHECK(normalize_axis(-1, s, "op") == 2);
  CHECK(normalize_axis(-3, s, "op") == 0);
  CHECK(normalize_axis(2, s, "op") == 2);
  CHECK_THROWS_WITH_AS(normalize_axis(3, s, "op"), "op: axis 3 out of range for [2,197,64]", Error);
  CHECK_THROWS_WITH_AS(normalize_axis(-4, s, "op"), "op: axis -4 out of range for [2,197,64]",
                       Error);
  CHECK_THROWS_WITH_AS(normalize_axis(0, Shape{}, "op"), "op: axis 0 out of range for []", Error);
}

TEST_CASE("a shape is seen around an axis") {
  const AxisView middle = around(Shape{2, 3, 4, 5}, 1);
  CHECK(middle.outer == 2);
  CHECK(middle.n == 3);
  CHECK(middle.inner == 20);
  CHECK(around(Shape{7}, 0).outer == 1);
  CHECK(around(Shape{7}, 0).inner == 1);
}
