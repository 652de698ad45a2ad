#pragma once

#include "tensor/ops/broadcast.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
void reference(const Broadcast& op, RefIn<T> in, RefOut<T> out) {
  auto &x = in[0], &b = in[1], &y = out[0];
  for (std::int64_t c = 0; c < b.numel(); ++c) {
    const T value = b[c];
    for (std::int64_t i = c; i < x.numel(); i += b.numel())
      y[i] = op.kind == Broadcast::Kind::add ? x[i] + value : x[i] * value;
  }
}

template <class T>
void reference(const SumLeading& op, RefIn<T> in, RefOut<T> out) {
  auto &x = in[0], &y = out[0];
  for (std::int64_t c = 0; c < y.numel(); ++c) {
    T sum(0);
    for (std::int64_t i = c; i < x.numel(); i += y.numel())
      sum += op.product ? x[i] * in[1][i] : x[i];
    y[c] = sum;
  }
}

}  // namespace hg::ops
