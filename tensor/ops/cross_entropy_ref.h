#pragma once

#include <limits>

#include "tensor/ops/cross_entropy.h"
#include "tensor/reference.h"

namespace hg::ref {

// t_j of a row with this label.
inline double smoothed_target(const ops::CrossEntropyOptions& options, std::int64_t classes,
                              std::int64_t label, std::int64_t j) {
  const double e = options.label_smoothing, rest = e / static_cast<double>(classes);
  return j == label ? 1 - e + rest : rest;
}

inline double denominator(const ops::CrossEntropyOptions& options, std::int64_t rows) {
  return static_cast<double>(options.denominator == 0 ? rows : options.denominator);
}

}  // namespace hg::ref

namespace hg::ops {

template <class T>
void reference(const CrossEntropy& op, RefIn<T> in, RefOut<T> out) {
  auto &x = in[0], &labels = in[1], &loss = out[0], &logsumexp = out[1];
  const std::int64_t rows = x.dim(0), n = x.dim(1);
  double total = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t label = labels.integer(r);
    T m(-std::numeric_limits<double>::infinity()), sum(0), expected(0);
    for (std::int64_t j = 0; j < n; ++j) m = ref::max(m, x[r * n + j]);
    for (std::int64_t j = 0; j < n; ++j) {
      const T d = x[r * n + j] - m;
      sum += ref::exp(d);
      expected += T(ref::smoothed_target(op.options, n, label, j)) * d;
    }
    const ref::PerRow once;
    logsumexp[r] = m + ref::log(sum);
    total += static_cast<double>(ref::log(sum) - expected);
  }
  loss[0] = T(total / ref::denominator(op.options, rows));
}

template <class T>
void reference(const CrossEntropyBackward& op, RefIn<T> in, RefOut<T> out) {
  auto &dy = in[0], &x = in[1], &labels = in[2], &logsumexp = in[3], &dx = out[0];
  const std::int64_t rows = x.dim(0), n = x.dim(1);
  const T scale(static_cast<double>(dy[0]) / ref::denominator(op.options, rows));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t j = 0; j < n; ++j) {
      const T target(ref::smoothed_target(op.options, n, labels.integer(r), j));
      dx[r * n + j] = scale * (ref::exp(x[r * n + j] - logsumexp[r]) - target);
    }
}

}  // namespace hg::ops
