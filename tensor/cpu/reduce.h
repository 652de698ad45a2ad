// Reductions cut into blocks whose limits depend on the sizes alone. Blocks run in parallel and
// leave partial results that are then reduced in order: the same bits with any thread count.
#pragma once

#include "tensor/allocator.h"
#include "tensor/cpu/elementwise.h"
#include "tensor/shape.h"

namespace hg::cpu {

inline constexpr std::int64_t kStripWidth = 1024;  // columns whose accumulators stay in L1
inline constexpr std::int64_t kMaxBlocks = 64;     // of rows; bounds the partial results

inline std::int64_t blocks_of(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

// body(row, begin, end) for pieces of at most kElementGrain elements of rows of n.
void for_pieces(std::int64_t rows, std::int64_t n, auto body) {
  const std::int64_t pieces = blocks_of(n, kElementGrain);
  parallel_each(rows * pieces, row_grain(n), [&](std::int64_t t) {
    const std::int64_t begin = t % pieces * kElementGrain;
    body(t / pieces, begin, std::min(n, begin + kElementGrain));
  });
}

// y[r] = the reduction of row r, for n > 0. piece(offset, count) reduces a part of the flat input,
// then(count, partials) the parts of a row.
template <class T, class Piece, class Then>
void reduce_rows(std::int64_t rows, std::int64_t n, T* y, Piece piece, Then then) {
  const std::int64_t pieces = blocks_of(n, kElementGrain);
  CachedVector<T> partials(static_cast<std::size_t>(pieces > 1 ? rows * pieces : 0));
  T* const to = pieces > 1 ? partials.data() : y;
  for_pieces(rows, n, [&](std::int64_t row, std::int64_t begin, std::int64_t end) {
    to[row * pieces + begin / kElementGrain] = piece(row * n + begin, end - begin);
  });
  if (pieces > 1)
    for (std::int64_t r = 0; r < rows; ++r) y[r] = then(pieces, partials.data() + r * pieces);
}

// Rows of [outer, n, inner] that one task takes: all of them, unless there are too few strips of
// columns to keep many threads busy.
inline std::int64_t block_rows(const AxisView& view) {
  const std::int64_t strips = view.outer * blocks_of(view.inner, kStripWidth);
  const std::int64_t most = view.n * std::min(view.inner, kStripWidth) / kElementGrain;
  const std::int64_t blocks = std::min(kMaxBlocks / std::max<std::int64_t>(strips, 1), most);
  return blocks_of(view.n, std::max<std::int64_t>(blocks, 1));
}

// y[o][i] = the reduction over j of [o][j][i], for n > 0 and inner > 0, vector-wise along i.
// strip(offset, rows, width, to) reduces `rows` rows, view.inner apart, of the flat input;
// then(rows, width, stride, partials, to) the partial results.
template <class T, class Strip, class Then>
void reduce_columns(const AxisView& view, T* y, Strip strip, Then then) {
  const std::int64_t n = view.n, inner = view.inner, rows = block_rows(view);
  const std::int64_t blocks = blocks_of(n, rows), strips = blocks_of(inner, kStripWidth);
  CachedVector<T> partials(static_cast<std::size_t>(blocks > 1 ? view.outer * blocks * inner : 0));
  T* const to = blocks > 1 ? partials.data() : y;
  const std::int64_t grain = row_grain(rows * std::min(inner, kStripWidth));
  parallel_each(view.outer * blocks * strips, grain, [&](std::int64_t t) {
    const std::int64_t block = t / strips, column = t % strips * kStripWidth;  // block: of all
    const std::int64_t row = block % blocks * rows;
    strip((block / blocks * n + row) * inner + column, std::min(rows, n - row),
          std::min(kStripWidth, inner - column), to + block * inner + column);
  });
  if (blocks == 1) return;
  parallel_each(view.outer * strips, 1, [&](std::int64_t t) {
    const std::int64_t o = t / strips, column = t % strips * kStripWidth;
    then(blocks, std::min(kStripWidth, inner - column), inner,
         partials.data() + o * blocks * inner + column, y + o * inner + column);
  });
}

// acc[c] = combine(acc[c], x[r * stride + c]...) over the rows, four at a time to spare acc.
template <class T, class Combine>
void combine_rows(std::int64_t rows, std::int64_t width, std::int64_t stride, const T* x, T* acc,
                  Combine combine) {
  const auto four = [&](auto a, auto p, auto q, auto r, auto s) {
    return combine(a, combine(combine(p, q), combine(r, s)));
  };
  for (; rows >= 4; rows -= 4, x += 4 * stride)
    map(four, width, acc, acc, x, x + stride, x + 2 * stride, x + 3 * stride);
  for (; rows > 0; --rows, x += stride) map(combine, width, acc, acc, x);
}

// sum[c] = the sum over the rows of x[r * stride + c].
template <class T>
void sum_rows(std::int64_t rows, std::int64_t width, std::int64_t stride, const T* x, T* sum) {
  std::fill_n(sum, width, T{0});
  combine_rows(rows, width, stride, x, sum, [](auto a, auto b) { return ei::padd(a, b); });
}

}  // namespace hg::cpu
