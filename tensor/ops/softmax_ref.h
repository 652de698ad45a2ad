#pragma once

#include <limits>

#include "tensor/ops/softmax.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
void reference(const Softmax& op, RefIn<T> in, RefOut<T> out) {
  auto &x = in[0], &y = out[0];
  const auto [outer, n, inner] = around(x.shape(), normalize_axis(op.axis, x.shape(), "ref"));
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      const auto at = [&](std::int64_t j) { return (o * n + j) * inner + i; };
      T m(-std::numeric_limits<double>::infinity()), sum(0);
      for (std::int64_t j = 0; j < n; ++j) m = ref::max(m, x[at(j)]);
      for (std::int64_t j = 0; j < n; ++j) {
        y[at(j)] = ref::exp(x[at(j)] - m);
        sum += y[at(j)];
      }
      for (std::int64_t j = 0; j < n; ++j) y[at(j)] = y[at(j)] / sum;
    }
}

template <class T>
void reference(const SoftmaxBackward& op, RefIn<T> in, RefOut<T> out) {
  auto &dy = in[0], &y = in[1], &dx = out[0];
  const auto [outer, n, inner] = around(y.shape(), normalize_axis(op.axis, y.shape(), "ref"));
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      const auto at = [&](std::int64_t j) { return (o * n + j) * inner + i; };
      T dot(0);
      for (std::int64_t j = 0; j < n; ++j) dot += dy[at(j)] * y[at(j)];
      for (std::int64_t j = 0; j < n; ++j) dx[at(j)] = y[at(j)] * (dy[at(j)] - dot);
    }
}

}  // namespace hg::ops
