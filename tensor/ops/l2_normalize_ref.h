#pragma once

#include "tensor/ops/l2_normalize.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
void reference(const L2Normalize& op, RefIn<T> in, RefOut<T> out) {
  auto &x = in[0], &y = out[0], &norm = out[1];
  const std::int64_t n = x.dim(-1);
  for (std::int64_t r = 0; r < norm.numel(); ++r) {
    T squares(0);
    for (std::int64_t j = 0; j < n; ++j) squares += x[r * n + j] * x[r * n + j];
    norm[r] = ref::once([&] { return ref::sqrt(squares); });
    for (std::int64_t j = 0; j < n; ++j) y[r * n + j] = x[r * n + j] / ref::max(norm[r], T(op.eps));
  }
}

template <class T>
void reference(const L2NormalizeBackward& op, RefIn<T> in, RefOut<T> out) {
  auto &dy = in[0], &y = in[1], &norm = in[2], &dx = out[0];
  const std::int64_t n = y.dim(-1);
  for (std::int64_t r = 0; r < norm.numel(); ++r) {
    const bool clamped = static_cast<double>(norm[r]) <= op.eps;
    const T length = clamped ? T(op.eps) : norm[r];
    T dot(0);
    for (std::int64_t j = 0; j < n; ++j) dot += dy[r * n + j] * y[r * n + j];
    if (clamped) dot = T(0);
    for (std::int64_t j = 0; j < n; ++j)
      dx[r * n + j] = (dy[r * n + j] - y[r * n + j] * dot) / length;
  }
}

}  // namespace hg::ops
