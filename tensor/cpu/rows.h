// Runs a row kernel along one axis of contiguous tensors of equal shape. Where the axis is not the
// last, a block of columns is transposed into scratch, so that a kernel only ever sees unit stride.
#pragma once

#include <utility>

#include "tensor/cpu/elementwise.h"

namespace hg::cpu {

inline constexpr std::int64_t kColumnBlock = 16;

// rows[c][j] = x[j][c] and back, for c < columns, j < n; x's rows lie `stride` apart.
template <class T>
void gather_columns(std::int64_t n, std::int64_t columns, std::int64_t stride, const T* x,
                    T* rows) {
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t c = 0; c < columns; ++c) rows[c * n + j] = x[j * stride + c];
}
template <class T>
void scatter_columns(std::int64_t n, std::int64_t columns, std::int64_t stride, const T* rows,
                     T* x) {
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t c = 0; c < columns; ++c) x[j * stride + c] = rows[c * n + j];
}

template <class Kernel, std::size_t... I>
void along_axis_of(In in, const Tensor& out, int axis, Kernel kernel, std::index_sequence<I...>) {
  const AxisView view = around(out.shape(), axis);
  const std::int64_t n = view.n, inner = view.inner;
  dispatch_float(out.dtype(), "along_axis", [&]<class T>() {
    T* const y = out.data<T>();
    const T* const x[] = {in[I].data<T>()...};
    if (inner == 1) {
      parallel_each(view.outer, row_grain(n),
                    [&](std::int64_t r) { kernel(n, y + r * n, x[I] + r * n...); });
      return;
    }
    const std::int64_t blocks = (inner + kColumnBlock - 1) / kColumnBlock;
    parallel_each(view.outer * blocks, 1, [&](std::int64_t begin) {
      const std::int64_t column = begin % blocks * kColumnBlock;
      const std::int64_t columns = std::min(kColumnBlock, inner - column);
      const std::int64_t first = begin / blocks * n * inner + column, size = n * columns;
      CachedVector<T> scratch(static_cast<std::size_t>(size) * (sizeof...(I) + 1));
      T* const rows = scratch.data();
      (gather_columns(n, columns, inner, x[I] + first, rows + (I + 1) * size), ...);
      for (std::int64_t c = 0; c < columns; ++c)
        kernel(n, rows + c * n, rows + (I + 1) * size + c * n...);
      scatter_columns(n, columns, inner, rows, y + first);
    });
  });
}

// kernel(n, T* y, const T* x0, ...) for each row of n elements along `axis` of out and the first
// kInputs inputs.
template <std::size_t kInputs, class Kernel>
void along_axis(In in, const Tensor& out, int axis, Kernel kernel) {
  along_axis_of(in, out, axis, kernel, std::make_index_sequence<kInputs>());
}

}  // namespace hg::cpu
