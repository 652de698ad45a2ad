#pragma once

#include "tensor/ops/matmul.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
void reference(const Matmul&, RefIn<T> in, RefOut<T> out) {
  auto &a = in[0], &b = in[1], &y = out[0];
  const std::int64_t m = a.dim(-2), k = a.dim(-1), n = b.dim(-1);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const std::int64_t block = i / (m * n), row = i / n % m, column = i % n;
    const std::int64_t block_b = b.shape().rank() == 2 ? 0 : block;
    T sum(0);
    for (std::int64_t j = 0; j < k; ++j)
      ref::mac(sum, a[(block * m + row) * k + j], b[(block_b * k + j) * n + column]);
    y[i] = sum;
  }
}

template <class T>
void reference(const MatmulAdd&, RefIn<T> in, RefOut<T> out) {
  auto &a = in[0], &b = in[1], &y = out[0];
  const std::int64_t k = a.dim(1), n = b.dim(1);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    T product(0);
    for (std::int64_t j = 0; j < k; ++j) ref::mac(product, a[i / n * k + j], b[j * n + i % n]);
    y[i] = in[2][i] + product;
  }
}

}  // namespace hg::ops
