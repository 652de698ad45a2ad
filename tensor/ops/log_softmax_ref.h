#pragma once

#include <limits>

#include "tensor/ops/log_softmax.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
void reference(const LogSoftmax& op, RefIn<T> in, RefOut<T> out) {
  auto &x = in[0], &y = out[0];
  const auto [outer, n, inner] = around(x.shape(), normalize_axis(op.axis, x.shape(), "ref"));
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      const auto at = [&](std::int64_t j) { return (o * n + j) * inner + i; };
      T m(-std::numeric_limits<double>::infinity()), sum(0);
      for (std::int64_t j = 0; j < n; ++j) m = ref::max(m, x[at(j)]);
      for (std::int64_t j = 0; j < n; ++j) {
        y[at(j)] = x[at(j)] - m;
        sum += ref::exp(y[at(j)]);
      }
      const T shift = ref::once([&] { return ref::log(sum); });
      for (std::int64_t j = 0; j < n; ++j) y[at(j)] = y[at(j)] - shift;
    }
}

template <class T>
void reference(const LogSoftmaxBackward& op, RefIn<T> in, RefOut<T> out) {
  auto &dy = in[0], &y = in[1], &dx = out[0];
  const auto [outer, n, inner] = around(y.shape(), normalize_axis(op.axis, y.shape(), "ref"));
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      const auto at = [&](std::int64_t j) { return (o * n + j) * inner + i; };
      T sum(0);
      for (std::int64_t j = 0; j < n; ++j) sum += dy[at(j)];
      for (std::int64_t j = 0; j < n; ++j) dx[at(j)] = dy[at(j)] - ref::exp(y[at(j)]) * sum;
    }
}

}  // namespace hg::ops
