#pragma once

#include "tensor/ops/concat.h"
#include "tensor/reference.h"

namespace hg::ops {

// move(part, its element, the element of the whole) for the parts of a whole along an axis
template <class T, class Move>
void for_parts(int axis, const Shape& shape, std::span<RefTensor<T>> parts, Move move) {
  const auto whole = around(shape, normalize_axis(axis, shape, "ref"));
  std::int64_t first = 0;
  for (auto& part : parts) {
    const std::int64_t n = part.numel() / std::max<std::int64_t>(whole.outer * whole.inner, 1);
    for (std::int64_t i = 0; i < part.numel(); ++i) {
      const std::int64_t o = i / (n * whole.inner), j = i / whole.inner % n;
      move(part, i, (o * whole.n + first + j) * whole.inner + i % whole.inner);
    }
    first += n;
  }
}

template <class T>
void reference(const Concat& op, RefIn<T> in, RefOut<T> out) {
  for_parts(op.axis, out[0].shape(), in, [&](auto& part, std::int64_t i, std::int64_t at) {
    copy_element(part, i, out[0], at);
  });
}

template <class T>
void reference(const Split& op, RefIn<T> in, RefOut<T> out) {
  for_parts(op.axis, in[0].shape(), out,
            [&](auto& part, std::int64_t i, std::int64_t at) { copy_element(in[0], at, part, i); });
}

}  // namespace hg::ops
