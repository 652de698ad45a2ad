// gather_rows picks rows by index, scatter_add_rows adds rows up at their indices: each is the
// other's gradient. Rows belong to one table [R,D], or to each image its own: [B,N,D].
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

// For ops that take indices of rows, or of what else: throws unless each is in [0, rows).
void check_ids(const Op& op, const Tensor& ids, std::int64_t rows, std::string_view what = "rows");
// Different rows that ids name, of `images` tables of `rows` rows with the same number of ids each.
std::uint64_t distinct_rows(const Tensor& ids, std::int64_t images, std::int64_t rows);

// x [R,D], ids of any shape -> ids.shape + [D];  x [B,N,D], ids [B,k] -> [B,k,D]
class GatherRows final : public OpOf<GatherRows> {
 public:
  HG_DECLARE_DIFFERENTIABLE_OP("gather_rows");
  Saved saved() const override { return {.in = {1}, .out = {}}; }
};

// table: src ids.shape + [D] -> [rows,D];  per_image: src [B,k,D], ids [B,k] -> [B,rows,D]
class ScatterAddRows final : public OpOf<ScatterAddRows> {
 public:
  enum class Form { table, per_image };
  ScatterAddRows(std::int64_t rows, Form form) : rows(rows), form(form) {}
  HG_DECLARE_DIFFERENTIABLE_OP("scatter_add_rows");
  Saved saved() const override { return {.in = {1}, .out = {}}; }

  const std::int64_t rows;
  const Form form;
};

}  // namespace ops

// x [R, D], ids i64 -> ids.shape + [D];  x [B, N, D], ids [B, k] -> [B, k, D]
inline Tensor gather_rows(const Tensor& x, const Tensor& ids) {
  return run_one(ops::GatherRows(), {x, ids});
}
// Rows of equal id add up in order of position. As with gather_rows, three axes mean that each
// image has its own rows; ops::ScatterAddRows also adds [B,k,D] up into one table.
inline Tensor scatter_add_rows(const Tensor& src, const Tensor& ids, std::int64_t rows) {
  using Form = ops::ScatterAddRows::Form;
  const Form form = src.rank() == 3 ? Form::per_image : Form::table;
  return run_one(ops::ScatterAddRows(rows, form), {src, ids});
}

}  // namespace hg
