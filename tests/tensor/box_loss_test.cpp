#include "tensor/ops/box_loss.h"

#include <doctest/doctest.h>

#include "autograd/gradcheck.h"
#include "autograd/tape.h"

namespace hg {
namespace {

using Values = std::vector<double>;

struct Corners {
  double x0, y0, x1, y1;
};

Tensor boxes(const std::vector<Corners>& all) {
  Values v;
  for (const Corners& c : all)
    v.insert(v.end(), {(c.x0 + c.x1) / 2, (c.y0 + c.y1) / 2, c.x1 - c.x0, c.y1 - c.y0});
  return Tensor::of<double>({static_cast<std::int64_t>(all.size()), 4}, v);
}

Tensor flags(const std::vector<std::int64_t>& v) {
  return Tensor::of<std::int64_t>({static_cast<std::int64_t>(v.size())}, v);
}

// Of one pair: the loss holds 2 (1 - GIoU) beside the distance, which is known.
double giou(const Corners& a, const Corners& b) {
  const Tensor p = boxes({a}), t = boxes({b});
  double distance = 0;
  for (std::size_t k = 0; k < 4; ++k)
    distance += std::abs(p.to_vector<double>()[k] - t.to_vector<double>()[k]) / 4;
  return 1 - (box_loss(p, t, flags({1})).loss.item<double>() - 5 * distance) / 2;
}

double iou(const Corners& a, const Corners& b) {
  return box_loss(boxes({a}), boxes({b}), flags({1})).iou.item<double>();
}

void check_gradient(const Corners& a, const Corners& b) {
  const Tensor has = flags({1});
  const auto result =
      gradcheck([&](std::span<const Tensor> x) { return Tensors{box_loss(x[0], x[1], has).loss}; },
                Tensors{boxes({a}), boxes({b})});
  INFO(result.worst);
  CHECK(result.ok);
  CHECK(result.checked >= 8);
}

}  // namespace

TEST_CASE("box_loss: IoU and GIoU of known boxes") {
  const Corners square{0, 0, 2, 2};
  CHECK(iou(square, {1, 1, 3, 3}) == doctest::Approx(1 / 7.0).epsilon(1e-12));
  CHECK(giou(square, {1, 1, 3, 3}) == doctest::Approx(-0.0793651).epsilon(1e-6));
  CHECK(iou({0, 0, 1, 1}, {2, 2, 3, 3}) == 0);
  CHECK(giou({0, 0, 1, 1}, {2, 2, 3, 3}) == doctest::Approx(-7 / 9.0).epsilon(1e-12));
  CHECK(iou(square, square) == 1);
  CHECK(giou(square, square) == doctest::Approx(1).epsilon(1e-12));
  CHECK(iou({0, 0, 4, 4}, {1, 1, 3, 3}) == doctest::Approx(0.25));
  CHECK(giou({0, 0, 4, 4}, {1, 1, 3, 3}) == doctest::Approx(0.25));
}

TEST_CASE("box_loss: 5 mean|b - b*| + 2 (1 - GIoU), meaned over the rows that have a box") {
  // Side by side: distance 0.5/4, I 0, U 0.5, C 0.5, so GIoU 0.
  const Corners left{0, 0, 0.5, 0.5}, right{0.5, 0, 1, 0.5};
  const double apart = 5 * 0.125 + 2;
  const Tensor p = boxes({left, left, left}), t = boxes({right, left, right});
  CHECK(box_loss(p, t, flags({1, 1, 1})).loss.item<double>() == doctest::Approx(apart * 2 / 3));
  CHECK(box_loss(p, t, flags({1, 1, 0})).loss.item<double>() == doctest::Approx(apart / 2));
  CHECK(box_loss(p, t, flags({1, 1, 0}), 8).loss.item<double>() == doctest::Approx(apart / 8));
  CHECK(box_loss(p, t, flags({0, 0, 0})).loss.item<double>() == 0);
  CHECK(box_loss(p, t, flags({0, 0, 0})).iou.to_vector<double>() == Values{0, 1, 0});
}

TEST_CASE("box_loss: rows without a box have no gradient") {
  const Tensor p = boxes({{0, 0, 0.5, 0.5}, {0, 0, 0.5, 0.5}}),
               t = boxes({{0.2, 0.2, 0.9, 0.9}, {0.2, 0.2, 0.9, 0.9}});
  for (const std::int64_t kept : {0, 1}) {
    Tape tape;
    tape.watch(p);
    const Values g = tape.backward(box_loss(p, t, flags({kept, 0})).loss)[p].to_vector<double>();
    CHECK((g[0] != 0) == (kept == 1));
    CHECK(Values(g.begin() + 4, g.end()) == Values(4, 0));
  }
}

TEST_CASE("box_loss: gradient at overlapping, nested and disjoint boxes") {
  check_gradient({0.1, 0.2, 0.6, 0.7}, {0.3, 0.35, 0.8, 0.9});
  check_gradient({0.1, 0.1, 0.9, 0.8}, {0.3, 0.2, 0.6, 0.5});
  check_gradient({0.3, 0.2, 0.6, 0.5}, {0.1, 0.1, 0.9, 0.8});
  check_gradient({0.1, 0.1, 0.3, 0.25}, {0.5, 0.6, 0.9, 0.8});
  check_gradient({0.1, 0.1, 0.7, 0.25}, {0.2, 0.6, 0.9, 0.8});  // apart along y alone
}

TEST_CASE("box_loss: boxes without an area are finite and can be learnt from") {
  const Tensor point = boxes({{0.5, 0.5, 0.5, 0.5}}), other = boxes({{0.2, 0.2, 0.2, 0.2}});
  CHECK(giou({0.5, 0.5, 0.5, 0.5}, {0.5, 0.5, 0.5, 0.5}) == 0);  // U and C are 0
  // Only U is 0: nothing of the box around both is filled.
  CHECK(giou({0.5, 0.5, 0.5, 0.5}, {0.2, 0.2, 0.2, 0.2}) == doctest::Approx(-1));
  CHECK(iou({0.5, 0.5, 0.5, 0.5}, {0.2, 0.2, 0.2, 0.2}) == 0);
  for (const Tensor& target : {point, other}) {
    Tape tape;
    tape.watch(point);
    const Gradients grads = tape.backward(box_loss(point, target.clone(), flags({1})).loss);
    for (const double g : grads[point].to_vector<double>()) CHECK(std::isfinite(g));
  }
}

TEST_CASE("box_loss: refuses what is no flag") {
  CHECK_THROWS_WITH_AS(box_loss(boxes({{0, 0, 1, 1}}), boxes({{0, 0, 1, 1}}), flags({2})),
                       "box_loss: has_box 2 of row 0, expected 0 or 1", Error);
}

}  // namespace hg
