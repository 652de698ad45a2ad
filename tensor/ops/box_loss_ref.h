#pragma once

#include "tensor/ops/box_loss.h"
#include "tensor/reference.h"

namespace hg::ref {

// Every row is worked on; has_box only says which of them count.
inline double box_weight(const ops::BoxLossOptions& options, std::int64_t boxes) {
  if (options.denominator > 0) return 1 / static_cast<double>(options.denominator);
  return boxes > 0 ? 1 / static_cast<double>(boxes) : 0;
}

template <class T>
std::int64_t count_boxes(RefTensor<T>& has_box) {
  std::int64_t boxes = 0;
  for (std::int64_t r = 0; r < has_box.numel(); ++r) boxes += has_box.integer(r);
  return boxes;
}

template <class T>
struct Corners {
  T x0, y0, x1, y1;
};

template <class T>
Corners<T> corners(RefTensor<T>& boxes, std::int64_t row) {
  const T half(0.5), cx = boxes[4 * row], cy = boxes[4 * row + 1];
  const T across = boxes[4 * row + 2] * half, down = boxes[4 * row + 3] * half;
  return {cx - across, cy - down, cx + across, cy + down};
}

template <class T>
T area(RefTensor<T>& boxes, std::int64_t row) {
  return boxes[4 * row + 2] * boxes[4 * row + 3];
}

// 1 / v, or 0 where v is too small.
template <class T>
T inverse_area(T v) {
  const T quotient = T(1) / v;
  return v < T(ops::BoxLossOptions::kLeastArea) ? T(0) : quotient;
}

template <class T>
struct Overlap {
  T wide, high, hull_wide, hull_high, shared, joint, hull, per_joint, per_hull;
};

template <class T>
Overlap<T> overlap(RefTensor<T>& p, RefTensor<T>& t, std::int64_t row, const Corners<T>& a,
                   const Corners<T>& b) {
  Overlap<T> o;
  o.wide = max(min(a.x1, b.x1) - max(a.x0, b.x0), T(0));
  o.high = max(min(a.y1, b.y1) - max(a.y0, b.y0), T(0));
  o.hull_wide = max(a.x1, b.x1) - min(a.x0, b.x0);
  o.hull_high = max(a.y1, b.y1) - min(a.y0, b.y0);
  o.shared = o.wide * o.high;
  o.joint = area(p, row) + area(t, row) - o.shared;
  o.hull = o.hull_wide * o.hull_high;
  o.per_joint = inverse_area(o.joint);
  o.per_hull = inverse_area(o.hull);
  return o;
}

}  // namespace hg::ref

namespace hg::ops {

template <class T>
void reference(const BoxLoss& op, RefIn<T> in, RefOut<T> out) {
  auto &p = in[0], &t = in[1], &has_box = in[2], &iou = out[1];
  const std::int64_t boxes = ref::count_boxes(has_box);
  T total(0);
  for (std::int64_t r = 0; r < p.dim(0); ++r) {
    T distance(0);
    for (std::int64_t k = 4 * r; k < 4 * r + 4; ++k) distance += ref::abs(p[k] - t[k]);
    const auto o = ref::overlap(p, t, r, ref::corners(p, r), ref::corners(t, r));
    iou[r] = o.shared * o.per_joint;
    const T giou = iou[r] - (o.hull - o.joint) * o.per_hull;
    const T loss = T(ops::BoxLossOptions::kDistance / 4) * distance +
                   T(BoxLossOptions::kOverlap) * (T(1) - giou);
    total += has_box.integer(r) ? loss : T(0);
  }
  out[0][0] = T(static_cast<double>(total) * ref::box_weight(op.options, boxes));
}

// By the corners: each pushes the overlap or the hull, and belongs to centre and size.
template <class T>
void reference(const BoxLossBackward& op, RefIn<T> in, RefOut<T> out) {
  auto &p = in[1], &t = in[2], &has_box = in[3], &dp = out[0];
  const double weight = ref::box_weight(op.options, ref::count_boxes(has_box));
  const double dy = static_cast<double>(in[0][0]);
  for (std::int64_t r = 0; r < p.dim(0); ++r) {
    const auto a = ref::corners(p, r), b = ref::corners(t, r);
    const auto o = ref::overlap(p, t, r, a, b);
    const T by_joint = o.per_hull - o.shared * o.per_joint * o.per_joint;
    const T by_shared = o.per_joint - by_joint;
    const T by_hull = -o.joint * o.per_hull * o.per_hull;
    const T none(0), half(0.5);
    const auto axis = [&](T low, T high, T to_low, T to_high, T own, T other, T other_hull,
                          T other_size, T& centre, T& size) {
      const T inner = by_shared * other, outer = by_hull * other_hull;
      const T inside = own > none ? inner : none;
      const T from_low = low > to_low ? inside : outer;
      const T from_high = high < to_high ? inside : outer;
      centre = from_high - from_low;
      size = (from_high + from_low) * half + by_joint * other_size;
    };
    T d[4];
    axis(a.x0, a.x1, b.x0, b.x1, o.wide, o.high, o.hull_high, p[4 * r + 3], d[0], d[2]);
    axis(a.y0, a.y1, b.y0, b.y1, o.high, o.wide, o.hull_wide, p[4 * r + 2], d[1], d[3]);
    const T scale(has_box.integer(r) ? dy * weight : 0);
    for (std::int64_t k = 0; k < 4; ++k) {
      const double away = static_cast<double>(p[4 * r + k] - t[4 * r + k]);
      const T sign(away > 0 ? 1 : away < 0 ? -1 : 0);
      dp[4 * r + k] = scale * (T(ops::BoxLossOptions::kDistance / 4) * sign -
                               T(BoxLossOptions::kOverlap) * d[k]);
    }
  }
}

}  // namespace hg::ops
