#pragma once

#include "tensor/ops/linear.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
void reference(const Linear& op, RefIn<T> in, RefOut<T> out) {
  auto &x = in[0], &w = in[1], &y = out[0];
  const std::int64_t width = w.dim(0), inner = w.dim(1);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    ref::part("product");
    T sum(0);
    for (std::int64_t k = 0; k < inner; ++k)
      ref::mac(sum, x[i / width * inner + k], w[i % width * inner + k]);
    y[i] = sum;
    if (op.keep_pre) out[1][i] = sum;
    ref::part("bias");
    if (in.size() == 3) y[i] = y[i] + in[2][i % width];
    if (op.keep_pre) out[1][i] = y[i];
    ref::part("gelu");
    if (op.gelu) y[i] = y[i] * T(0.5) * (T(1) + ref::erf(y[i] * T(std::sqrt(0.5))));
  }
  ref::part("product");
  ref::part("bias");
  ref::part("gelu");
}

}  // namespace hg::ops
