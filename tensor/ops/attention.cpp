#include "tensor/ops/attention.h"

#include <bit>
#include <cmath>

#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/scratch.h"
#include "tensor/ops/attention/score_blocks.h"
#include "tensor/ops/attention/token_heads.h"

namespace hg::ops {
namespace {

struct Sizes {
  std::int64_t batch, heads, n, m, d;  // n queries, m keys
  double scale() const { return 1 / std::sqrt(static_cast<double>(d)); }
  std::uint64_t rows() const { return static_cast<std::uint64_t>(batch * heads * n); }
  std::uint64_t pairs() const { return rows() * static_cast<std::uint64_t>(m); }
  std::uint64_t width() const { return static_cast<std::uint64_t>(d); }
};

Sizes sizes_of(In qkv, std::int64_t heads) {
  const Shape& q = qkv[0].shape();
  if (heads > 0) return {q[0], heads, q[1], q[1], q[2] / (3 * heads)};
  return {q[0], q[1], q[2], qkv[1].shape()[2], q[3]};
}

// The output, or its gradient; part `which` of `parts` that lie side by side; [B, H, N, D] where
// heads are apart.
template <class T>
TokenHeads<T> result(const Tensor& x, std::int64_t heads, int which = 0, int parts = 1) {
  if (heads > 0) return token_heads<T>(x, heads, which, parts);
  return {x.data<T>(), x.shape().product(1, 4), x.shape().product(2, 4), x.dim(3)};
}

// Operand `which` (q, k, v) of tensors laid out like the forward's inputs.
template <class T>
TokenHeads<T> operand(In qkv, std::int64_t heads, int which) {
  return result<T>(qkv[heads > 0 ? 0 : which], heads, which, 3);
}

// Turns raw scores of one row into exp(scale (s - max)) and returns their sum; shift = scale max.
template <class T>
T exponentiate(const Sizes& s, T* row, T& shift) {
  const T scale = static_cast<T>(s.scale());
  shift = scale * cpu::row_max_of_numbers(s.m, row);
  return cpu::exp_sum(s.m, row, scale, shift, row);
}

template <class T>
struct Forward {
  Sizes s;
  TokenHeads<T> q, k, v, o;
  T* lse;

  // Rows [begin, end) of one (image, head); the division by the sum is left to the output rows.
  void operator()(std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end) const {
    const cpu::Scratch<T> keys(cpu::packed_size<T>(s.m, s.d)),
        values(cpu::packed_size<T>(s.d, s.m));
    cpu::pack_b<T>(s.m, s.d, k.matrix(b, h).transposed(), keys);
    cpu::pack_b<T>(s.d, s.m, v.matrix(b, h), values);
    const std::int64_t step = cpu::block_rows(s.m);
    const cpu::Scratch<T> scores(step * cpu::padded_size<T>(s.m));
    for (std::int64_t i = begin; i < end; i += step)
      block(b, h, i, std::min(step, end - i), keys, values, scores);
  }

  void block(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t rows, const T* keys,
             const T* values, T* scores) const {
    T* const out = o.at(b, h) + i * o.row;
    T* const row_lse = lse + (b * s.heads + h) * s.n + i;
    const std::int64_t ld = cpu::padded_size<T>(s.m);
    T sums[cpu::kMostBlockRows];
    cpu::gemm_packed<T>(rows, ld, s.d, q.matrix(b, h, i), keys, scores, ld);
    for (std::int64_t r = 0; r < rows; ++r) sums[r] = exponentiate(s, scores + r * ld, row_lse[r]);
    cpu::map([](auto shift, auto sum) { return ei::padd(shift, cpu::vlog(sum)); }, rows, row_lse,
             row_lse, sums);
    cpu::gemm_packed<T>(rows, s.d, s.m, {scores, ld, 1}, values, out, o.row);
    for (std::int64_t r = 0; r < rows; ++r)
      cpu::scale_row<T>(s.d, T{1} / sums[r], out + r * o.row, out + r * o.row);
  }
};

// Where some of the queries of an (image, head) add up dk and dv: [m] rows of d, `row` apart.
template <class T>
struct KeySums {
  T *dk, *dv;
  std::int64_t row;
};

template <class T>
struct Backward {
  Sizes s;
  TokenHeads<T> q, k, v, o, grad_o, dq, dk, dv;
  const T* lse;

  // Keys taken at a time. Of many, few enough that their sums stay in cache, and that a block of
  // scores has many queries.
  std::int64_t block_keys() const { return s.m <= 512 ? s.m : 256; }

  struct Work {  // of a block of keys
    cpu::Scratch<T> keys_t, keys, values_t, p, ds, packed, deltas;
    Work(const Sizes& s, std::int64_t keys, std::int64_t step, std::int64_t queries)
        : keys_t(cpu::packed_size<T>(keys, s.d)),
          keys(cpu::packed_size<T>(s.d, keys)),
          values_t(cpu::packed_size<T>(keys, s.d)),
          p(step * cpu::padded_size<T>(keys)),
          ds(step * cpu::padded_size<T>(keys)),
          packed(cpu::gemm_scratch<T>(s.d, step)),
          deltas(queries) {}
  };

  // Queries [begin, end) of one (image, head).
  void operator()(std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end,
                  const KeySums<T>& sums) const {
    const std::int64_t most = block_keys(), step = cpu::block_rows(most);
    const Work work(s, most, step, end - begin);
    for (std::int64_t i = begin; i < end; ++i)
      work.deltas[i - begin] =
          cpu::dot<T>(s.d, grad_o.at(b, h) + i * grad_o.row, o.at(b, h) + i * o.row);
    for (std::int64_t j = 0; j < s.m; j += most) {
      const std::int64_t keys = std::min(most, s.m - j);
      cpu::pack_b<T>(keys, s.d, k.matrix(b, h, j).transposed(), work.keys_t);
      cpu::pack_b<T>(s.d, keys, k.matrix(b, h, j), work.keys);
      cpu::pack_b<T>(keys, s.d, v.matrix(b, h, j).transposed(), work.values_t);
      const KeySums<T> here{sums.dk + j * sums.row, sums.dv + j * sums.row, sums.row};
      for (std::int64_t i = begin; i < end; i += step)
        block(b, h, i, std::min(step, end - i), j > 0, keys, work.deltas + (i - begin), here,
              i > begin, work);
    }
  }

 private:
  // So many queries from i on and a block of keys. add_dq, add_sums: to what is there.
  void block(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t rows, bool add_dq,
             std::int64_t keys, const T* deltas, const KeySums<T>& sums, bool add_sums,
             const Work& work) const {
    const std::int64_t ld = cpu::padded_size<T>(keys);
    const auto q_block = q.matrix(b, h, i), do_block = grad_o.matrix(b, h, i);
    const T* const row_lse = lse + (b * s.heads + h) * s.n + i;
    const cpu::Epilogue<T> add{.accumulate = add_sums};
    cpu::gemm_packed<T>(rows, ld, s.d, q_block, work.keys_t, work.p, ld);
    cpu::gemm_packed<T>(rows, ld, s.d, do_block, work.values_t, work.ds, ld);
    for (std::int64_t r = 0; r < rows; ++r)
      score_row(keys, row_lse[r], deltas[r], work.p + r * ld, work.ds + r * ld);
    const cpu::Matrix<T> p_t{work.p, 1, ld}, ds{work.ds, ld, 1};
    cpu::gemm_serial<T>(keys, s.d, rows, p_t, do_block, sums.dv, sums.row, work.packed, add);
    cpu::gemm_serial<T>(keys, s.d, rows, ds.transposed(), q_block, sums.dk, sums.row, work.packed,
                        add);
    cpu::gemm_packed<T>(rows, s.d, keys, ds, work.keys, dq.at(b, h) + i * dq.row, dq.row,
                        {.accumulate = add_dq});
  }

  // p: raw scores -> weights; ds: do v^T -> p (do v^T - do.o) scale. What comes of the padding is
  // never read.
  void score_row(std::int64_t keys, T row_lse, T row_delta, T* p, T* ds) const {
    using P = cpu::Packet<T>;
    const T factor = static_cast<T>(s.scale());
    const P scale = ei::pset1<P>(factor), delta = ei::pset1<P>(row_delta);
    const cpu::ScaledExp<T> weight(factor, row_lse);
    for (std::int64_t j = 0; j < keys; j += cpu::kLanes<T>) {
      const P w = weight(ei::ploadu<P>(p + j)), g = ei::ploadu<P>(ds + j);
      ei::pstoreu(p + j, w);
      ei::pstoreu(ds + j, ei::pmul(ei::pmul(ei::psub(g, delta), w), scale));
    }
  }
};

// Queries of long sequences go in pieces of their own, for threads to share: a power of two.
std::int64_t pieces_of(const Sizes& s) {
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>((s.n + cpu::kRowsOfPiece - 1) / cpu::kRowsOfPiece)));
}

// body(image, head, piece, first query, past the last one) of all
template <class Body>
void for_pieces(const Sizes& s, const Body& body) {
  const std::int64_t pieces = pieces_of(s);
  cpu::parallel_each(s.batch * s.heads * pieces, 1, [&](std::int64_t task) {
    const std::int64_t head = task / pieces, piece = task % pieces;
    body(head / s.heads, head % s.heads, piece, piece * s.n / pieces, (piece + 1) * s.n / pieces);
  });
}

// Each piece has sums of its own, the first one where they belong; they are added in order.
template <class T>
void run_backward(const Backward<T>& backward) {
  const Sizes& s = backward.s;
  const std::int64_t more = pieces_of(s) - 1, size = s.m * s.d;
  const cpu::Scratch<T> others(s.batch * s.heads * more * 2 * size);
  const auto sums_of = [&](std::int64_t b, std::int64_t h, std::int64_t piece) -> KeySums<T> {
    if (piece == 0) return {backward.dk.at(b, h), backward.dv.at(b, h), backward.dk.row};
    T* const own = others + ((b * s.heads + h) * more + piece - 1) * 2 * size;
    return {own, own + size, s.d};
  };
  for_pieces(s, [&](std::int64_t b, std::int64_t h, std::int64_t piece, std::int64_t begin,
                    std::int64_t end) { backward(b, h, begin, end, sums_of(b, h, piece)); });
  if (more == 0) return;
  cpu::parallel_each(s.batch * s.heads * s.m, cpu::row_grain(s.d), [&](std::int64_t key) {
    const std::int64_t head = key / s.m, b = head / s.heads, h = head % s.heads, j = key % s.m;
    const KeySums<T> to = sums_of(b, h, 0);
    for (std::int64_t piece = 1; piece <= more; ++piece) {
      const KeySums<T> from = sums_of(b, h, piece);
      cpu::add_row<T>(s.d, from.dk + j * from.row, to.dk + j * to.row);
      cpu::add_row<T>(s.d, from.dv + j * from.row, to.dv + j * to.row);
    }
  });
}

void check_operands(const Op& op, In in, std::int64_t heads) {
  expect_floats(op, in, heads > 0 ? 1 : 3);
  require(heads >= 0, op.name(), "{} heads", heads);
  expect_rank(op, in, 0, heads > 0 ? 3 : 4);
  const Shape& q = in[0].shape();
  if (heads > 0) {
    require(q[2] > 0 && q[2] % (3 * heads) == 0, op.name(),
            "{} does not hold q, k and v of {} heads", in[0], heads);
    return;
  }
  expect_rank(op, in, 1, 4);
  require(q[3] > 0 && in[1].shape()[2] > 0, op.name(), "nothing to attend to: q {}, k {}", q,
          in[1].shape());
  expect_shape(op, in, 1, {q[0], q[1], in[1].shape()[2], q[3]});
  expect_shape(op, in, 2, in[1].shape());
}

Shape output_shape(In in, std::int64_t heads) {
  Shape shape = in[0].shape();
  if (heads > 0) shape[2] /= 3;
  return shape;
}

}  // namespace

TensorSpecs Attention::infer(In in) const {
  check_operands(*this, in, heads);
  const Sizes s = sizes_of(in, heads);
  return {in[0].spec(output_shape(in, heads)), in[0].spec({s.batch, s.heads, s.n})};
}

// scale 1, softmax 5 per score
CostParts Attention::cost(In in, In out) const {
  const Sizes s = sizes_of(in, heads);
  const std::uint64_t product = 2 * s.pairs() * s.width(), third = bytes_of(in) / 3;
  const std::uint64_t v = heads > 0 ? third : in[2].bytes();
  return {{"qk", {product, s.pairs(), bytes_of(in) - v, 0}},
          {"softmax", {0, 5 * s.pairs(), 0, out[1].bytes()}},
          {"av", {product, 0, v, out[0].bytes()}}};
}

void Attention::cpu(In in, Out out) const {
  const Sizes s = sizes_of(in, heads);
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    const auto input = [&](int which) { return operand<T>(in, heads, which); };
    const Forward<T> forward{
        s, input(0), input(1), input(2), result<T>(out[0], heads), out[1].data<T>()};
    for_pieces(s, [&](std::int64_t b, std::int64_t h, std::int64_t, std::int64_t begin,
                      std::int64_t end) { forward(b, h, begin, end); });
  });
}

Tensors Attention::grad(const GradArgs& args) const {
  return run(AttentionBackward(heads),
             joined({args.grad_out[0], args.out[0], args.out[1]}, args.in));
}

Samples Attention::samples() {
  const auto apart = [](const Shape& q, const Shape& k) {
    return std::vector{S::uniform(q), S::uniform(k), S::uniform(k)};
  };
  return {sample(Attention(1), {S::uniform({1, 1, 3})}),
          sample(Attention(3), {S::uniform({2, 17, 3 * 3 * 5}, -2, 2)}),
          sample(Attention(1), {S::uniform({1, 197, 9})}),
          sample(Attention(0), apart({1, 2, 3, 4}, {1, 2, 5, 4})),
          sample(Attention(0), apart({1, 1, 3, 64}, {1, 1, 197, 64})),
          sample(Attention(0), apart({1, 1, 1601, 3}, {1, 1, 2, 3})),  // pieces of queries
          sample(Attention(0), apart({0, 2, 3, 4}, {0, 2, 3, 4}))};
}

TensorSpecs AttentionBackward::infer(In in) const {
  require(in.size() == (heads > 0 ? 4u : 6u), name(), "expected {} inputs, got {}",
          heads > 0 ? 4 : 6, in.size());
  expect_float(*this, in);
  const In operands = in.subspan(3);
  check_operands(*this, operands, heads);
  const Sizes s = sizes_of(operands, heads);
  expect_shape(*this, in, 0, output_shape(operands, heads));
  expect_shape(*this, in, 1, in[0].shape());
  expect_shape(*this, in, 2, {s.batch, s.heads, s.n});
  TensorSpecs specs;
  for (const Tensor& t : operands) specs.push_back(t.spec());
  return specs;
}

// qk: scores again, dq, dk; softmax: do.o per row, exp(scale s - lse) 3, ds 3; av: do v^T, dv
CostParts AttentionBackward::cost(In in, In out) const {
  const In operands = in.subspan(3);
  const Sizes s = sizes_of(operands, heads);
  const std::uint64_t product = 2 * s.pairs() * s.width();
  const std::uint64_t v = heads > 0 ? bytes_of(operands) / 3 : operands[2].bytes();
  return {{"qk", {3 * product, 0, bytes_of(operands) - v, bytes_of(out) - v}},
          {"softmax", {0, 6 * s.pairs() + 2 * s.rows() * s.width(), bytes_of(in.first(3)), 0}},
          {"av", {2 * product, 0, v, v}}};
}

void AttentionBackward::cpu(In in, Out out) const {
  const In operands = in.subspan(3);
  const Sizes s = sizes_of(operands, heads);
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    const auto input = [&](int which) { return operand<T>(operands, heads, which); };
    const auto output = [&](int which) { return operand<T>(out, heads, which); };
    run_backward(Backward<T>{s, input(0), input(1), input(2), result<T>(in[1], heads),
                             result<T>(in[0], heads), output(0), output(1), output(2),
                             in[2].data<T>()});
  });
}

Samples AttentionBackward::samples() {
  const auto apart = [](const Shape& q, const Shape& k, const Shape& rows) {
    return std::vector{S::uniform(q), S::uniform(q), S::uniform(rows, 5, 6),
                       S::uniform(q), S::uniform(k), S::uniform(k)};
  };
  return {sample(AttentionBackward(3), {S::uniform({2, 17, 15}), S::uniform({2, 17, 15}),
                                        S::uniform({2, 3, 17}, 2, 3), S::uniform({2, 17, 45})}),
          sample(AttentionBackward(1), {S::uniform({1, 1, 3}), S::uniform({1, 1, 3}),
                                        S::uniform({1, 1, 1}), S::uniform({1, 1, 9})}),
          sample(AttentionBackward(0), apart({1, 2, 3, 4}, {1, 2, 5, 4}, {1, 2, 3})),
          sample(AttentionBackward(0), apart({1, 1, 197, 16}, {1, 1, 197, 16}, {1, 1, 197})),
          // blocks of keys, pieces of queries
          sample(AttentionBackward(0), apart({1, 1, 7, 5}, {1, 1, 530, 5}, {1, 1, 7})),
          sample(AttentionBackward(0), apart({1, 2, 1601, 3}, {1, 2, 4, 3}, {1, 2, 1601}), 1e-5)};
}

}  // namespace hg::ops
