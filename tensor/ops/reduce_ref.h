#pragma once

#include <limits>

#include "tensor/ops/reduce.h"
#include "tensor/reference.h"

namespace hg::ops {

// x_j = x(j)
template <class T, class X>
T reduce(Reduce::Kind kind, std::int64_t n, X x) {
  using Kind = Reduce::Kind;
  T m(-std::numeric_limits<double>::infinity()), sum(0);
  if (kind == Kind::sum || kind == Kind::mean) {
    for (std::int64_t j = 0; j < n; ++j) sum += x(j);
    return kind == Kind::mean ? ref::mean(sum, n) : sum;
  }
  for (std::int64_t j = 0; j < n; ++j) m = ref::max(m, x(j));
  if (kind == Kind::max) return m;
  for (std::int64_t j = 0; j < n; ++j) sum += ref::exp(x(j) - m);
  return ref::once([&] { return m + ref::log(sum); });
}

template <class T>
void reference(const Reduce& op, RefIn<T> in, RefOut<T> out) {
  auto &x = in[0], &y = out[0];
  for_rows(x.shape(), op.axis, [&](std::int64_t row, std::int64_t n, auto at) {
    y[row] = reduce<T>(op.kind, n, [&](std::int64_t j) { return x[at(j)]; });
  });
}

template <class T>
void reference(const ReduceBackward& op, RefIn<T> in, RefOut<T> out) {
  auto &dy = in[0], &dx = out[0];
  using Kind = Reduce::Kind;
  const Kind kind = op.forward.kind;
  for_rows(op.shape, op.forward.axis, [&](std::int64_t row, std::int64_t n, auto place) {
    const T g = kind == Kind::mean ? ref::mean(dy[row], n) : dy[row];
    bool met = false;
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t at = place(j);
      dx[at] = g;
      if (kind == Kind::logsumexp) dx[at] = g * ref::exp(in[1][at] - in[2][row]);
      if (kind != Kind::max) continue;
      const bool maximal = !(in[1][at] < in[2][row]);
      if (!maximal || met) dx[at] = T(0);
      met |= maximal;
    }
  });
}

}  // namespace hg::ops
