// One row of box_loss and its gradient, for the CPU and for CUDA.
#pragma once

#include "tensor/host_device.h"
#include "tensor/ops/box_loss.h"

namespace hg::ops::boxes {

// std::max and std::min are for the host alone.
template <class T>
HG_HOST_DEVICE T larger(T a, T b) {
  return a < b ? b : a;
}
template <class T>
HG_HOST_DEVICE T smaller(T a, T b) {
  return b < a ? b : a;
}

// Two boxes along one axis.
template <class T>
struct Extent {
  T low, high, target_low, target_high;
  T overlap, enclosing;

  HG_HOST_DEVICE Extent(T centre, T size, T target_centre, T target_size)
      : low(centre - size / 2),
        high(centre + size / 2),
        target_low(target_centre - target_size / 2),
        target_high(target_centre + target_size / 2),
        overlap(larger(smaller(high, target_high) - larger(low, target_low), T(0))),
        enclosing(larger(high, target_high) - smaller(low, target_low)) {}
};

// Two boxes p and t: their extents, and the areas GIoU is made of.
template <class T>
struct Pair {
  Extent<T> x, y;
  T shared, joint, hull;          // I, U, C
  T inverse_joint, inverse_hull;  // 1/U and 1/C, 0 where too small

  HG_HOST_DEVICE Pair(const T* p, const T* t)
      : x(p[0], p[2], t[0], t[2]),
        y(p[1], p[3], t[1], t[3]),
        shared(x.overlap * y.overlap),
        joint(p[2] * p[3] + t[2] * t[3] - shared),
        hull(x.enclosing * y.enclosing),
        inverse_joint(inverse(joint)),
        inverse_hull(inverse(hull)) {}

  HG_HOST_DEVICE T iou() const { return shared * inverse_joint; }
  HG_HOST_DEVICE T giou() const { return iou() - (hull - joint) * inverse_hull; }

 private:
  HG_HOST_DEVICE static T inverse(T area) {
    return area < T(BoxLossOptions::kLeastArea) ? T(0) : 1 / area;
  }
};

template <class T>
HG_HOST_DEVICE T row_loss(const T* p, const T* t, const Pair<T>& pair) {
  T distance = 0;
  for (int k = 0; k < 4; ++k) distance += larger(p[k] - t[k], t[k] - p[k]);
  return T(BoxLossOptions::kDistance / 4) * distance +
         T(BoxLossOptions::kOverlap) * (1 - pair.giou());
}

// d GIoU along one axis, given d GIoU / dI and / dC; an end of the prediction moves the overlap
// where it lies inside the target, else the hull.
template <class T>
HG_HOST_DEVICE void giou_gradient(const Extent<T>& own, const Extent<T>& other, T by_shared,
                                  T by_hull, T& centre, T& size) {
  const T by_overlap = own.overlap > 0 ? by_shared * other.overlap : T(0);
  const T by_enclosing = by_hull * other.enclosing;
  const T low = own.low > own.target_low ? by_overlap : by_enclosing;
  const T high = own.high < own.target_high ? by_overlap : by_enclosing;
  centre = high - low;
  size = (high + low) / 2;
}

// dGIoU = dI/U - I dU/U^2 + dU/C - U dC/C^2 with dU = d(w h) - dI
template <class T>
HG_HOST_DEVICE void row_gradient(const T* p, const T* t, T scale, T* dp) {
  const Pair<T> pair(p, t);
  const T by_joint = pair.inverse_hull - pair.iou() * pair.inverse_joint;
  const T by_shared = pair.inverse_joint - by_joint;
  const T by_hull = -pair.joint * pair.inverse_hull * pair.inverse_hull;
  T d[4];
  giou_gradient(pair.x, pair.y, by_shared, by_hull, d[0], d[2]);
  giou_gradient(pair.y, pair.x, by_shared, by_hull, d[1], d[3]);
  d[2] += by_joint * p[3];
  d[3] += by_joint * p[2];
  for (int k = 0; k < 4; ++k) {
    const T away = p[k] - t[k];
    const T sign = static_cast<T>((away > 0) - (away < 0));
    dp[k] = scale * (T(BoxLossOptions::kDistance / 4) * sign - T(BoxLossOptions::kOverlap) * d[k]);
  }
}

}  // namespace hg::ops::boxes
