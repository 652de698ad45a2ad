#pragma once

#include <limits>

#include "tensor/ops/reduce.h"
#include "tensor/reference.h"

namespace hg {

template <>
struct Reference<ops::Reduce> {
  using Kind = ops::Reduce::Kind;

  // x_j = x(j)
  template <class T, class X>
  static T reduce(Kind kind, std::int64_t n, X x) {
    T m(-std::numeric_limits<double>::infinity()), sum(0);
    if (kind == Kind::sum || kind == Kind::mean) {
      for (std::int64_t j = 0; j < n; ++j) sum += x(j);
      const ref::PerRow once;
      return kind == Kind::mean ? sum / T(static_cast<double>(n)) : sum;
    }
    for (std::int64_t j = 0; j < n; ++j) m = ref::max(m, x(j));
    if (kind == Kind::max) return m;
    for (std::int64_t j = 0; j < n; ++j) sum += ref::exp(x(j) - m);
    const ref::PerRow once;
    return m + ref::log(sum);
  }

  template <class T>
  static void run(const ops::Reduce& op, RefIn<T> in, RefOut<T> out) {
    auto &x = in[0], &y = out[0];
    const auto [outer, n, inner] = around(x.shape(), normalize_axis(op.axis, x.shape(), "ref"));
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t i = 0; i < inner; ++i) {
        const auto at = [&, n = n, inner = inner](std::int64_t j) {
          return x[(o * n + j) * inner + i];
        };
        y[o * inner + i] = reduce<T>(op.kind, n, at);
      }
  }
};

template <>
struct Reference<ops::ReduceBackward> {
  using Kind = ops::Reduce::Kind;

  template <class T>
  static void run(const ops::ReduceBackward& op, RefIn<T> in, RefOut<T> out) {
    auto &dy = in[0], &dx = out[0];
    const Kind kind = op.forward.kind;
    const auto [outer, n, inner] =
        around(op.shape, normalize_axis(op.forward.axis, op.shape, "ref"));
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t i = 0; i < inner; ++i) {
        const std::int64_t row = o * inner + i;
        const T g = kind == Kind::mean ? mean_share(dy[row], n) : dy[row];
        bool met = false;
        for (std::int64_t j = 0; j < n; ++j) {
          const std::int64_t at = (o * n + j) * inner + i;
          dx[at] = g;
          if (kind == Kind::logsumexp) dx[at] = g * ref::exp(in[1][at] - in[2][row]);
          if (kind != Kind::max) continue;
          const bool maximal = !(in[1][at] < in[2][row]);
          if (!maximal || met) dx[at] = T(0);
          met |= maximal;
        }
      }
  }

  template <class T>
  static T mean_share(T g, std::int64_t n) {
    const ref::PerRow once;
    return g / T(static_cast<double>(n));
  }
};

}  // namespace hg
