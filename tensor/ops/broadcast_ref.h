#pragma once

#include "tensor/ops/broadcast.h"
#include "tensor/reference.h"

namespace hg {

template <>
struct Reference<ops::Broadcast> {
  template <class T>
  static void run(const ops::Broadcast& op, RefIn<T> in, RefOut<T> out) {
    auto &x = in[0], &b = in[1], &y = out[0];
    for (std::int64_t c = 0; c < b.numel(); ++c) {
      const T value = b[c];
      for (std::int64_t i = c; i < x.numel(); i += b.numel())
        y[i] = op.kind == ops::Broadcast::Kind::add ? x[i] + value : x[i] * value;
    }
  }
};

template <>
struct Reference<ops::SumLeading> {
  template <class T>
  static void run(const ops::SumLeading& op, RefIn<T> in, RefOut<T> out) {
    auto &x = in[0], &y = out[0];
    for (std::int64_t c = 0; c < y.numel(); ++c) {
      T sum(0);
      for (std::int64_t i = c; i < x.numel(); i += y.numel())
        sum += op.product ? x[i] * in[1][i] : x[i];
      y[c] = sum;
    }
  }
};

}  // namespace hg
