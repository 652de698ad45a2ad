#pragma once

#include "tensor/ops/concat.h"
#include "tensor/reference.h"

namespace hg {

template <>
struct Reference<ops::Concat> {
  template <class T>
  static void run(const ops::Concat& op, RefIn<T> in, RefOut<T> out) {
    const int axis = normalize_axis(op.axis, out[0].shape(), "ref");
    const auto whole = around(out[0].shape(), axis);
    std::int64_t first = 0;
    for (auto& x : in) {
      const auto part = around(x.shape(), axis);
      for (std::int64_t o = 0; o < part.outer; ++o)
        for (std::int64_t j = 0; j < part.n; ++j)
          for (std::int64_t i = 0; i < part.inner; ++i)
            copy_element(x, (o * part.n + j) * part.inner + i, out[0],
                         (o * whole.n + first + j) * whole.inner + i);
      first += part.n;
    }
  }
};

template <>
struct Reference<ops::Split> {
  template <class T>
  static void run(const ops::Split& op, RefIn<T> in, RefOut<T> out) {
    const int axis = normalize_axis(op.axis, in[0].shape(), "ref");
    const auto whole = around(in[0].shape(), axis);
    std::int64_t first = 0;
    for (auto& y : out) {
      const auto part = around(y.shape(), axis);
      for (std::int64_t o = 0; o < part.outer; ++o)
        for (std::int64_t j = 0; j < part.n; ++j)
          for (std::int64_t i = 0; i < part.inner; ++i)
            copy_element(in[0], (o * whole.n + first + j) * whole.inner + i, y,
                         (o * part.n + j) * part.inner + i);
      first += part.n;
    }
  }
};

}  // namespace hg
