#pragma once

#include "tensor/ops/view.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
void reference(const Reshape&, RefIn<T> in, RefOut<T> out) {
  for (std::int64_t i = 0; i < in[0].numel(); ++i) out[0][i] = in[0][i];
}

template <class T>
void reference(const Slice& op, RefIn<T> in, RefOut<T> out) {
  const std::int64_t row = in[0].shape().product(1, in[0].shape().rank());
  for (std::int64_t i = 0; i < out[0].numel(); ++i) out[0][i] = in[0][op.begin * row + i];
}

template <class T>
void reference(const Transpose&, RefIn<T> in, RefOut<T> out) {
  const std::int64_t m = in[0].dim(-2), n = in[0].dim(-1);
  for (std::int64_t b = 0; b < in[0].numel() / (m * n); ++b)
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) out[0][(b * n + j) * m + i] = in[0][(b * m + i) * n + j];
}

}  // namespace hg::ops
