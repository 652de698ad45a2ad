#pragma once

#include "tensor/ops/scale_axes.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
void reference(const ScaleAxes& op, RefIn<T> in, RefOut<T> out) {
  const std::int64_t n = in[1].numel();
  const std::int64_t inner =
      in[0].shape().product(op.first + in[1].shape().rank(), in[0].shape().rank());
  for (std::int64_t i = 0; i < in[0].numel(); ++i) out[0][i] = in[0][i] * in[1][i / inner % n];
}

template <class T>
void reference(const DotAxes& op, RefIn<T> in, RefOut<T> out) {
  const std::int64_t n = out[0].numel();
  const std::int64_t inner = in[0].shape().product(op.last, in[0].shape().rank());
  for (std::int64_t i = 0; i < n; ++i) out[0][i] = T(0);
  for (std::int64_t i = 0; i < in[0].numel(); ++i) out[0][i / inner % n] += in[0][i] * in[1][i];
}

}  // namespace hg::ops
