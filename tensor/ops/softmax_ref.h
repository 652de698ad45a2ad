#pragma once

#include <limits>

#include "tensor/ops/softmax.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
void reference(const Softmax& op, RefIn<T> in, RefOut<T> out) {
  auto &x = in[0], &y = out[0];
  for_rows(x.shape(), op.axis, [&](std::int64_t, std::int64_t n, auto at) {
    T m(-std::numeric_limits<double>::infinity()), sum(0);
    for (std::int64_t j = 0; j < n; ++j) m = ref::max(m, x[at(j)]);
    for (std::int64_t j = 0; j < n; ++j) {
      const T d = x[at(j)] - m, e = ref::exp(d);
      y[at(j)] = op.log ? d : e;
      sum += e;
    }
    const T shift = ref::once([&] { return ref::log(sum); });
    for (std::int64_t j = 0; j < n; ++j) y[at(j)] = op.log ? y[at(j)] - shift : y[at(j)] / sum;
  });
}

template <class T>
void reference(const SoftmaxBackward& op, RefIn<T> in, RefOut<T> out) {
  auto &dy = in[0], &y = in[1], &dx = out[0];
  for_rows(y.shape(), op.axis, [&](std::int64_t, std::int64_t n, auto at) {
    T sum(0);
    for (std::int64_t j = 0; j < n; ++j) sum += op.log ? dy[at(j)] : dy[at(j)] * y[at(j)];
    for (std::int64_t j = 0; j < n; ++j)
      dx[at(j)] = op.log ? dy[at(j)] - ref::exp(y[at(j)]) * sum : y[at(j)] * (dy[at(j)] - sum);
  });
}

}  // namespace hg::ops
