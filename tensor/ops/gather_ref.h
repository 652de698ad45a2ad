#pragma once

#include "tensor/ops/gather.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
void reference(const GatherRows&, RefIn<T> in, RefOut<T> out) {
  auto &x = in[0], &ids = in[1], &y = out[0];
  const std::int64_t width = x.dim(-1);
  for (std::int64_t i = 0; i < ids.numel(); ++i) {
    const std::int64_t image = x.shape().rank() == 3 ? i / ids.dim(1) : 0;
    const std::int64_t row = image * x.dim(-2) + ids.integer(i);
    for (std::int64_t c = 0; c < width; ++c) copy_element(x, row * width + c, y, i * width + c);
  }
}

template <class T>
void reference(const ScatterAddRows& op, RefIn<T> in, RefOut<T> out) {
  auto &src = in[0], &ids = in[1], &y = out[0];
  const std::int64_t width = src.dim(-1);
  for (std::int64_t i = 0; i < y.numel(); ++i) y[i] = T(0);
  for (std::int64_t i = 0; i < ids.numel(); ++i) {
    const bool own = op.form == ScatterAddRows::Form::per_image;
    const std::int64_t row = (own ? i / ids.dim(1) * op.rows : 0) + ids.integer(i);
    for (std::int64_t c = 0; c < width; ++c) y[row * width + c] += src[i * width + c];
  }
}

}  // namespace hg::ops
