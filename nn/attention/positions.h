// Shapes and positions that variants share: heads, parts of qkv, tables by position.
#pragma once

#include "tensor/ops/concat.h"
#include "tensor/ops/gather.h"
#include "tensor/ops/view.h"

namespace hg::nn {

// [B, N, H D] -> [B, N, H, D]
inline Tensor with_heads(const Tensor& x, std::int64_t heads) {
  return reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads});
}
// [B, N, ...] -> [B, N, X]
inline Tensor without_heads(const Tensor& x) { return reshape(x, {x.dim(0), x.dim(1), -1}); }

// [B, N, 3 X] -> q, k, v
inline Tensors split_qkv(const Tensor& qkv) {
  const std::int64_t width = qkv.dim(2) / 3;
  return split(qkv, {width, width, width}, 2);
}

// The rows of a table [T, W] at the tokens' positions: [N, W] or [B, N, W].
inline Tensor rows_at(const Tensor& table, const Tensor& ids) {
  return ids.defined() ? gather_rows(table, ids) : table;
}

// Entries of ids [N] or [B, N] at rows [B, n]; the rows themselves if ids is undefined, which
// stands for the whole sequence.
Tensor positions_at(const Tensor& ids, const Tensor& rows);

// Positions [B, 1 + n] of the class token and of patches, which are given as lists i64 [B, ..].
Tensor token_positions(std::initializer_list<Tensor> patches);

}  // namespace hg::nn
