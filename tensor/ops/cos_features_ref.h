#pragma once

#include <numbers>

#include "tensor/ops/cos_features.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
double cos_angle(RefIn<T> in, std::int64_t b, std::int64_t t, std::int64_t period) {
  std::int64_t position = t;
  if (in.size() > 1) position = in[1].integer(in[1].shape().rank() == 2 ? b * in[0].dim(1) + t : t);
  return std::numbers::pi / 2 * static_cast<double>(position + 1) / static_cast<double>(period);
}

// f(element of x, elements of y with cos and sin, angle) for every element
template <class T, class F>
void for_cos_features(RefIn<T> in, std::int64_t heads, std::int64_t period, F f) {
  const std::int64_t n = in[0].dim(1), d = in[0].dim(2) / heads;
  for (std::int64_t i = 0; i < in[0].numel(); ++i) {
    const std::int64_t row = i / d, token = row / heads;
    f(i, 2 * row * d + i % d, 2 * row * d + d + i % d, cos_angle(in, token / n, token % n, period));
  }
}

template <class T>
void reference(const CosFeatures& op, RefIn<T> in, RefOut<T> out) {
  for_cos_features<T>(in, op.heads, op.period,
                      [&](std::int64_t i, std::int64_t c, std::int64_t s, double angle) {
                        const T x = ref::max(in[0][i], T(0));
                        out[0][c] = x * T(std::cos(angle));
                        out[0][s] = x * T(std::sin(angle));
                      });
}

template <class T>
void reference(const CosFeaturesBackward& op, RefIn<T> in, RefOut<T> out) {
  for_cos_features<T>(in.subspan(1), op.heads, op.period,
                      [&](std::int64_t i, std::int64_t c, std::int64_t s, double angle) {
                        const T g = in[0][c] * T(std::cos(angle)) + in[0][s] * T(std::sin(angle));
                        out[0][i] = in[1][i] > T(0) ? g : T(0);
                      });
}

}  // namespace hg::ops
