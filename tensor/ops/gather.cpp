#include "tensor/ops/gather.h"

#include <algorithm>

#include "tensor/cpu/elementwise.h"
#include "tensor/transfer.h"

namespace hg::ops {
namespace {

// Both forms as one: `images` tables of `rows` rows, of each `picks` rows are named by ids. A table
// shared by all ids is one image.
struct Layout {
  std::int64_t images, rows, picks, width;
};

Layout layout_of(const Tensor& x, const Tensor& ids) {
  const std::int64_t images = x.rank() == 3 ? x.dim(0) : 1;
  return {images, x.dim(-2), ids.numel() / std::max<std::int64_t>(images, 1), x.dim(-1)};
}

constexpr std::int64_t kColumns = 64;

// Adds columns [0, columns) of the picked rows into y, one row after the other.
template <class T>
void scatter_columns(const Layout& at, const std::int64_t* ids, std::int64_t columns, const T* x,
                     T* y) {
  for (std::int64_t r = 0; r < at.rows; ++r) std::fill_n(y + r * at.width, columns, T{0});
  for (std::int64_t i = 0; i < at.picks; ++i) {
    cpu::add_row(columns, x + i * at.width, y + ids[i] * at.width);
  }
}

}  // namespace

void check_ids(const Op& op, const Tensor& ids, std::int64_t rows, std::string_view what) {
  const std::int64_t* id = ids.data<std::int64_t>();
  for (std::int64_t i = 0; i < ids.numel(); ++i)
    require(id[i] >= 0 && id[i] < rows, op.name(), "id {} at position {} of {} out of range: {} {}",
            id[i], i, ids, rows, what);
}

std::uint64_t distinct_rows(const Tensor& ids, std::int64_t images, std::int64_t rows) {
  CachedVector<char> seen(static_cast<std::size_t>(images * rows), 0);
  const Tensor here = on_host(ids);
  const std::int64_t* id = here.data<std::int64_t>();
  const std::int64_t picks = images == 0 ? 0 : ids.numel() / images;
  std::uint64_t distinct = 0;
  for (std::int64_t i = 0; i < images * picks; ++i) {
    char& row = seen[i / picks * rows + id[i]];
    distinct += row == 0;
    row = 1;
  }
  return distinct;
}

TensorSpecs GatherRows::infer(In in) const {
  expect_inputs(*this, in, 2);
  const Tensor &x = in[0], &ids = in[1];
  expect_dtype(*this, in, 1, DType::i64);
  require(x.rank() == 2 || x.rank() == 3, name(), "input 0 must have 2 or 3 axes, got {}", x);
  require(x.rank() == 2 ? ids.rank() < Shape::kMaxRank : ids.rank() == 2 && ids.dim(0) == x.dim(0),
          name(), "ids {} do not fit {}", ids, x);
  Shape shape = ids.shape();
  shape.push_back(x.dim(-1));
  return {x.spec(shape)};
}

// a row named twice is read once
CostParts GatherRows::cost(In in, In out) const {
  const Layout at = layout_of(in[0], in[1]);
  const std::uint64_t row_bytes = static_cast<std::uint64_t>(at.width) * size_of(in[0].dtype());
  const std::uint64_t rows = distinct_rows(in[1], at.images, at.rows);
  return Cost{.bytes_read = rows * row_bytes + in[1].bytes(), .bytes_written = bytes_of(out)};
}

void GatherRows::cpu(In in, Out out) const {
  const Layout at = layout_of(in[0], in[1]);
  check_ids(*this, in[1], at.rows);
  const std::int64_t* ids = in[1].data<std::int64_t>();
  dispatch_any(in[0].dtype(), [&]<class T>() {
    const T* x = in[0].data<T>();
    T* y = out[0].data<T>();
    cpu::parallel_each(at.images * at.picks, cpu::row_grain(at.width), [&](std::int64_t i) {
      const std::int64_t row = i / at.picks * at.rows + ids[i];
      std::copy_n(x + row * at.width, at.width, y + i * at.width);
    });
  });
}

Tensors GatherRows::grad(const GradArgs& args) const {
  using Form = ScatterAddRows::Form;
  const Tensor& x = args.in[0];
  const ScatterAddRows scatter(x.dim(-2), x.rank() == 3 ? Form::per_image : Form::table);
  return {run_one(scatter, {args.grad_out[0], args.in[1]}), Tensor()};
}

Samples GatherRows::samples() {
  return {sample(GatherRows(), {S::uniform({197, 3}), S::integers({1}, 197)}),
          sample(GatherRows(), {S::uniform({5, 70}), S::integers({3, 2, 4}, 5)}),
          sample(GatherRows(), {S::uniform({3, 2}), S::integers({}, 3)}),
          sample(GatherRows(), {S::uniform({2, 197, 3}), S::integers({2, 50}, 197)}),
          sample(GatherRows(), {S::uniform({3, 4, 130}), S::integers({3, 9}, 4)}),
          sample(GatherRows(), {S::uniform({1, 1, 1}), S::integers({1, 1}, 1)}),
          sample(GatherRows(), {S::uniform({2, 3, 4}), S::integers({2, 0}, 3)}),
          sample(GatherRows(), {S::uniform({3, 0}), S::integers({2}, 3)}),
          sample(GatherRows(), {S::integers({6, 2}, 100), S::integers({4}, 6)})};
}

TensorSpecs ScatterAddRows::infer(In in) const {
  expect_floats(*this, in, 2, {1});
  const Tensor &src = in[0], &ids = in[1];
  require(rows >= 0, name(), "negative number of rows: {}", rows);
  require(src.rank() > 0 && src.shape().slice(0, src.rank() - 1) == ids.shape(), name(),
          "ids {} do not fit {}", ids, src);
  if (form == Form::table) return {src.spec({rows, src.dim(-1)})};
  expect_rank(*this, in, 0, 3);
  return {src.spec({src.dim(0), rows, src.dim(-1)})};
}

// one addition per element of src
CostParts ScatterAddRows::cost(In in, In out) const {
  return elementwise_cost(in, out, count(in[0]));
}

void ScatterAddRows::cpu(In in, Out out) const {
  check_ids(*this, in[1], rows);
  const Layout at = layout_of(out[0], in[1]);
  const std::int64_t blocks = (at.width + kColumns - 1) / kColumns;
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    cpu::parallel_each(at.images * blocks, 1, [&](std::int64_t chunk) {
      const std::int64_t image = chunk / blocks, column = chunk % blocks * kColumns;
      scatter_columns(at, in[1].data<std::int64_t>() + image * at.picks,
                      std::min(kColumns, at.width - column),
                      in[0].data<T>() + image * at.picks * at.width + column,
                      out[0].data<T>() + image * at.rows * at.width + column);
    });
  });
}

Tensors ScatterAddRows::grad(const GradArgs& args) const {
  return {gather_rows(args.grad_out[0], args.in[1]), Tensor()};
}

Samples ScatterAddRows::samples() {
  const auto table = [](std::int64_t rows) { return ScatterAddRows(rows, Form::table); };
  const auto images = [](std::int64_t rows) { return ScatterAddRows(rows, Form::per_image); };
  return {sample(table(197), {S::uniform({3, 2}), S::integers({3}, 197)}),
          sample(table(4), {S::uniform({5, 7, 130}), S::integers({5, 7}, 4)}),
          sample(table(2), {S::uniform({1}), S::integers({}, 2)}),
          sample(table(3), {S::uniform({0, 5}), S::integers({0}, 3)}),
          sample(images(197), {S::uniform({2, 50, 3}), S::integers({2, 50}, 197)}),
          sample(images(4), {S::uniform({3, 9, 70}), S::integers({3, 9}, 4)}),
          sample(images(1), {S::uniform({1, 197, 1}), S::integers({1, 197}, 1)})};
}

}  // namespace hg::ops
