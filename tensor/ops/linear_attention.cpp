#include "tensor/ops/linear_attention.h"

#include "tensor/cpu/reduce.h"
#include "tensor/cpu/scratch.h"
#include "tensor/cpu/token_heads.h"
#include "tensor/run.h"

namespace hg {
namespace ops {
namespace {

namespace ei = Eigen::internal;
using cpu::TokenHeads;

struct Sizes {
  std::int64_t batch, heads, n, m, f, d;  // n queries, m keys, f features
  Sizes(In in, std::int64_t heads)
      : batch(in[0].dim(0)),
        heads(heads),
        n(in[0].dim(1)),
        m(in[1].dim(1)),
        f(in[0].dim(2) / heads),
        d(in[2].dim(2) / heads) {}
  std::uint64_t all(std::int64_t rows, std::int64_t columns) const {
    return static_cast<std::uint64_t>(batch * heads * rows * columns);
  }
  std::uint64_t keys() const { return 2 * all(m, f) * static_cast<std::uint64_t>(d); }
  std::uint64_t queries() const { return 2 * all(n, f) * static_cast<std::uint64_t>(d); }
};

// Tokens are taken in blocks that stay in cache through all that is done with them. Segments of
// blocks are what threads share out; each leaves sums of its own, which are then added in order, so
// that bits depend on the sizes alone.
constexpr std::int64_t kBlock = 256, kSegment = 1024;

std::int64_t segments_of(std::int64_t tokens) {
  return std::max<std::int64_t>(1, cpu::blocks_of(tokens, kSegment));
}

// body(image, head, segment, begin, end) for the segments of tokens of every head.
template <class Body>
void for_segments(const Sizes& s, std::int64_t tokens, Body body) {
  const std::int64_t segments = segments_of(tokens);
  cpu::parallel_for(s.batch * s.heads * segments, 1, [&](std::int64_t task, std::int64_t) {
    const std::int64_t head = task / segments, begin = task % segments * kSegment;
    body(head / s.heads, head % s.heads, task, begin, std::min(tokens, begin + kSegment));
  });
}

// body(begin, rows) for the blocks of a segment.
template <class Body>
void for_blocks(std::int64_t begin, std::int64_t end, Body body) {
  for (std::int64_t i = begin; i < end; i += kBlock) body(i, std::min(kBlock, end - i));
}

// What every segment of every head adds to a sum of `size` elements a head, and their total.
template <class T>
class SegmentSums {
 public:
  // `total` holds a sum of every head, or is null: there is none to form.
  SegmentSums(const Sizes& s, std::int64_t tokens, std::int64_t size, T* total)
      : heads_(s.batch * s.heads),
        segments_(segments_of(tokens)),
        size_(size),
        total_(total),
        parts_(total && segments_ > 1 ? heads_ * segments_ * size : 0) {}

  // Zeros to begin with; task as in for_segments.
  T* part(std::int64_t task) const {
    if (!total_) return nullptr;
    T* const at = (segments_ > 1 ? static_cast<T*>(parts_) : total_) + task * size_;
    std::fill_n(at, size_, T{0});
    return at;
  }
  void add_up() const {
    if (!total_ || segments_ == 1) return;
    for (std::int64_t head = 0; head < heads_; ++head)
      cpu::sum_rows<T>(segments_, size_, size_, parts_ + head * segments_ * size_,
                       total_ + head * size_);
  }

 private:
  std::int64_t heads_, segments_, size_;
  T* total_;
  cpu::Scratch<T> parts_;
};

template <class T>
T dot(std::int64_t n, const T* x, const T* y) {
  return cpu::row_sum(
      n, [](auto a, auto b) { return ei::pmul(a, b); }, x, y);
}
template <class T>
void scale_row(std::int64_t n, T factor, const T* x, T* y) {
  const auto f = ei::pset1<cpu::Packet<T>>(factor);
  cpu::map(
      n, y, [&](auto v) { return ei::pmul(v, f); }, x);
}
template <class T>
void add_scaled(std::int64_t n, T factor, const T* x, T* y) {
  const auto f = ei::pset1<cpu::Packet<T>>(factor);
  cpu::map(
      n, y, [&](auto a, auto v) { return ei::pmadd(v, f, a); }, y, x);
}

template <class T>
void add_rows(std::int64_t rows, std::int64_t width, std::int64_t stride, const T* x, T* sum) {
  cpu::combine_rows(rows, width, stride, x, sum, [](auto a, auto b) { return ei::padd(a, b); });
}

template <class T>
struct Forward {
  Sizes s;
  TokenHeads<T> f, g, v, o;
  T *state, *z, *den;  // z and den null without a denominator
  T floor;

  void operator()() const {
    sum_keys();
    for_segments(s, s.n,
                 [&](std::int64_t b, std::int64_t h, std::int64_t, std::int64_t begin,
                     std::int64_t end) { ask(b, h, begin, end); });
  }

  void sum_keys() const {
    const SegmentSums<T> S(s, s.m, s.f * s.d, state), sums(s, s.m, s.f, z);
    for_segments(s, s.m,
                 [&](std::int64_t b, std::int64_t h, std::int64_t task, std::int64_t begin,
                     std::int64_t end) {
                   T *const S_part = S.part(task), *const sum = sums.part(task);
                   const cpu::Scratch<T> packed(cpu::gemm_scratch<T>(s.d, kBlock));
                   for_blocks(begin, end, [&](std::int64_t j, std::int64_t rows) {
                     if (sum) add_rows(rows, s.f, g.row, g.at(b, h) + j * g.row, sum);
                     cpu::gemm_serial<T>(s.f, s.d, rows, g.matrix(b, h, j).transposed(),
                                         v.matrix(b, h, j), S_part, s.d, packed,
                                         {.accumulate = true});
                   });
                 });
    S.add_up();
    sums.add_up();
  }

  void ask(std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end) const {
    const std::int64_t head = b * s.heads + h;
    const cpu::Scratch<T> S(cpu::packed_size<T>(s.d, s.f));
    cpu::pack_b<T>(s.d, s.f, {state + head * s.f * s.d, s.d, 1}, S);
    for_blocks(begin, end, [&](std::int64_t i, std::int64_t rows) {
      cpu::gemm_packed<T>(rows, s.d, s.f, f.matrix(b, h, i), S, o.at(b, h) + i * o.row, o.row);
      for (std::int64_t r = i; z && r < i + rows; ++r) {
        T& sum = den[head * s.n + r];
        sum = dot<T>(s.f, f.at(b, h) + r * f.row, z + head * s.f);
        T* const row = o.at(b, h) + r * o.row;
        scale_row<T>(s.d, T{1} / std::max(sum, floor), row, row);
      }
    });
  }
};

template <class T>
struct Backward {
  Sizes s;
  TokenHeads<T> f, g, v, o, grad_o, df, dg, dv;
  const T *state, *z, *den;
  T floor;

  // dnum_i = do_i / den_i, dden_i = - do_i.o_i / den_i; df = S dnum + dden z; dS = sum f dnum^T;
  // dz = sum dden f; dg = dS v + dz; dv = dS^T g
  void operator()() const {
    const std::int64_t heads = s.batch * s.heads;
    const cpu::Scratch<T> dS(heads * s.f * s.d), dz(z ? heads * s.f : 0);
    const SegmentSums<T> dS_parts(s, s.n, s.f * s.d, dS),
        dz_parts(s, s.n, s.f, z ? static_cast<T*>(dz) : nullptr);
    for_segments(s, s.n,
                 [&](std::int64_t b, std::int64_t h, std::int64_t task, std::int64_t begin,
                     std::int64_t end) {
                   queries(b, h, begin, end, dS_parts.part(task), dz_parts.part(task));
                 });
    dS_parts.add_up();
    dz_parts.add_up();
    for_segments(
        s, s.m,
        [&](std::int64_t b, std::int64_t h, std::int64_t, std::int64_t begin, std::int64_t end) {
          const std::int64_t head = b * s.heads + h;
          keys(b, h, begin, end, dS + head * s.f * s.d, z ? dz + head * s.f : nullptr);
        });
  }

  void queries(std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end, T* dS,
               T* dz) const {
    const std::int64_t head = b * s.heads + h;
    const cpu::Scratch<T> S_t(cpu::packed_size<T>(s.f, s.d)), num(z ? kBlock * s.d : 0),
        dden(z ? kBlock : 0), packed(cpu::gemm_scratch<T>(s.d, kBlock));
    cpu::pack_b<T>(s.f, s.d, cpu::Matrix<T>{state + head * s.f * s.d, s.d, 1}.transposed(), S_t);
    for_blocks(begin, end, [&](std::int64_t i, std::int64_t rows) {
      cpu::Matrix<T> dnum = grad_o.matrix(b, h, i);
      if (z) {
        quotient(b, h, i, rows, num, dden);
        dnum = {num, s.d, 1};
      }
      if (z) add_weighted(rows, dden, f.at(b, h) + i * f.row, dz);
      cpu::gemm_serial<T>(s.f, s.d, rows, f.matrix(b, h, i).transposed(), dnum, dS, s.d, packed,
                          {.accumulate = true});
      T* const to = df.at(b, h) + i * df.row;
      cpu::gemm_packed<T>(rows, s.f, s.d, dnum, S_t, to, df.row);
      for (std::int64_t r = 0; z && r < rows; ++r)
        add_scaled<T>(s.f, dden[r], z + head * s.f, to + r * df.row);
    });
  }

  void keys(std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end, const T* dS,
            const T* dz) const {
    const cpu::Matrix<T> matrix{dS, s.d, 1};
    const cpu::Scratch<T> rows_of(cpu::packed_size<T>(s.d, s.f)),
        columns_of(cpu::packed_size<T>(s.f, s.d));
    cpu::pack_b<T>(s.d, s.f, matrix, rows_of);
    cpu::pack_b<T>(s.f, s.d, matrix.transposed(), columns_of);
    for_blocks(begin, end, [&](std::int64_t j, std::int64_t rows) {
      cpu::gemm_packed<T>(rows, s.f, s.d, v.matrix(b, h, j), columns_of, dg.at(b, h) + j * dg.row,
                          dg.row, {.bias = dz});
      cpu::gemm_packed<T>(rows, s.d, s.f, g.matrix(b, h, j), rows_of, dv.at(b, h) + j * dv.row,
                          dv.row);
    });
  }

  void quotient(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t rows, T* num,
                T* dden) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t i = first + r;
      const T* const row = grad_o.at(b, h) + i * grad_o.row;
      const T sum = den[(b * s.heads + h) * s.n + i], inverse = T{1} / std::max(sum, floor);
      scale_row<T>(s.d, inverse, row, num + r * s.d);
      // where the floor holds, the denominator is a constant
      dden[r] = sum < floor ? T{0} : -dot<T>(s.d, row, o.at(b, h) + i * o.row) * inverse;
    }
  }
  void add_weighted(std::int64_t rows, const T* weights, const T* x, T* sum) const {
    for (std::int64_t r = 0; r < rows; ++r) add_scaled<T>(s.f, weights[r], x + r * f.row, sum);
  }
};

void check_operands(const Op& op, In in, std::int64_t heads) {
  expect_float(op, in);
  require(heads > 0, op.name(), "{} heads", heads);
  for (int i = 0; i < 3; ++i) expect_rank(op, in, i, 3);
  for (const Tensor& t : in.first(3))
    require(t.dim(2) > 0 && t.dim(2) % heads == 0, op.name(), "{} does not hold {} heads", t,
            heads);
  expect_shape(op, in, 1, {in[0].dim(0), in[1].dim(1), in[0].dim(2)});
  expect_shape(op, in, 2, {in[0].dim(0), in[1].dim(1), in[2].dim(2)});
}

}  // namespace

TensorSpecs LinearAttention::infer(In in) const {
  expect_inputs(*this, in, 3);
  check_operands(*this, in, heads);
  const Sizes s(in, heads);
  const auto spec = [&](const Shape& shape) {
    TensorSpec made = in[0].spec();
    made.shape = shape;
    return made;
  };
  TensorSpecs specs{spec({s.batch, s.n, heads * s.d}), spec({s.batch, heads, s.f, s.d})};
  if (normalised()) {
    specs.push_back(spec({s.batch, heads, s.f}));
    specs.push_back(spec({s.batch, heads, s.n}));
  }
  return specs;
}

// normaliser 3: add to z, f.z; the reciprocal is one per row
CostParts LinearAttention::cost(In in, In out) const {
  const Sizes s(in, heads);
  const std::uint64_t norm = normalised() ? s.all(s.m, s.f) + 2 * s.all(s.n, s.f) : 0;
  return {{"kv", {s.keys(), 0, in[1].bytes() + in[2].bytes(), out[1].bytes()}},
          {"norm", {0, norm, 0, bytes_of(out.subspan(2))}},
          {"qs", {s.queries(), 0, in[0].bytes(), out[0].bytes()}}};
}

void LinearAttention::cpu(In in, Out out) const {
  const Sizes s(in, heads);
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    const auto head = [&](const Tensor& t) { return cpu::token_heads<T>(t, heads); };
    const Forward<T> forward{s,
                             head(in[0]),
                             head(in[1]),
                             head(in[2]),
                             head(out[0]),
                             out[1].data<T>(),
                             normalised() ? out[2].data<T>() : nullptr,
                             normalised() ? out[3].data<T>() : nullptr,
                             static_cast<T>(floor)};
    forward();
  });
}

Tensors LinearAttention::grad(const GradArgs& args) const {
  Tensors inputs{args.grad_out[0]};
  inputs.insert(inputs.end(), args.in.begin(), args.in.end());
  inputs.insert(inputs.end(), args.out.begin(), args.out.end());
  return run(LinearAttentionBackward(*this), inputs);
}

Samples LinearAttention::samples() {
  using S = SampleInput;
  const auto inputs = [](std::int64_t b, std::int64_t n, std::int64_t m, std::int64_t f,
                         std::int64_t d) {
    return std::vector{S::uniform({b, n, f}, 0.1, 1), S::uniform({b, m, f}, 0.1, 1),
                       S::uniform({b, m, d})};
  };
  return {sample(LinearAttention(1, 1e-6), inputs(1, 1, 1, 1, 1)),
          sample(LinearAttention(3, 1e-6), inputs(2, 7, 5, 12, 6)),
          sample(LinearAttention(1, 1e-6), inputs(1, 197, 197, 4, 3), 1e-5),
          sample(LinearAttention(1, 1e-6), inputs(1, 1100, 1030, 1, 1), 1e-5),  // two segments
          sample(LinearAttention(2, 5.0), inputs(1, 4, 5, 4, 4)),  // some are below the floor
          sample(LinearAttention(2, kNoDenominator), inputs(2, 5, 3, 4, 6)),
          sample(LinearAttention(2, 1e-6), inputs(0, 3, 3, 4, 4))};
}

TensorSpecs LinearAttentionBackward::infer(In in) const {
  expect_inputs(*this, in, forward.normalised() ? 8 : 6);
  check_operands(*this, in.subspan(1), forward.heads);
  const TensorSpecs made = forward.infer(in.subspan(1, 3));
  expect_shape(*this, in, 0, made[0].shape);
  for (std::size_t i = 0; i < made.size(); ++i)
    expect_shape(*this, in, static_cast<int>(4 + i), made[i].shape);
  return {in[1].spec(), in[2].spec(), in[3].spec()};
}

// norm: dnum 1, dden 2, df and dz 2 each, dg 1
CostParts LinearAttentionBackward::cost(In in, In out) const {
  const Sizes s(in.subspan(1), forward.heads);
  const std::uint64_t norm =
      forward.normalised() ? 3 * s.all(s.n, s.d) + 4 * s.all(s.n, s.f) + s.all(s.m, s.f) : 0;
  const std::uint64_t normal_bytes =
      forward.normalised() ? in[4].bytes() + bytes_of(in.subspan(6)) : 0;
  return {
      {"kv", {2 * s.keys(), 0, in[2].bytes() + in[3].bytes(), out[1].bytes() + out[2].bytes()}},
      {"norm", {0, norm, normal_bytes, 0}},
      {"qs", {2 * s.queries(), 0, in[0].bytes() + in[1].bytes() + in[5].bytes(), out[0].bytes()}}};
}

void LinearAttentionBackward::cpu(In in, Out out) const {
  const Sizes s(in.subspan(1), forward.heads);
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    const auto head = [&](const Tensor& t) { return cpu::token_heads<T>(t, forward.heads); };
    const Backward<T> backward{s,
                               head(in[1]),
                               head(in[2]),
                               head(in[3]),
                               head(in[4]),
                               head(in[0]),
                               head(out[0]),
                               head(out[1]),
                               head(out[2]),
                               in[5].data<T>(),
                               forward.normalised() ? in[6].data<T>() : nullptr,
                               forward.normalised() ? in[7].data<T>() : nullptr,
                               static_cast<T>(forward.floor)};
    backward();
  });
}

Samples LinearAttentionBackward::samples() {
  using S = SampleInput;
  Samples all;
  for (const Sample& from : LinearAttention::samples()) {
    const auto& op = dynamic_cast<const LinearAttention&>(*from.op);
    const Shape &f = from.inputs[0].shape, &v = from.inputs[2].shape;
    const Shape o{f[0], f[1], v[2]};
    std::vector<S> inputs{
        S::uniform(o),  from.inputs[0],
        from.inputs[1], from.inputs[2],
        S::uniform(o),  S::uniform({f[0], op.heads, f[2] / op.heads, v[2] / op.heads})};
    if (op.normalised()) {
      inputs.push_back(S::uniform({f[0], op.heads, f[2] / op.heads}, 0.1, 1));
      inputs.push_back(S::uniform({f[0], op.heads, f[1]}, 0.5, 8));
    }
    all.push_back(sample(LinearAttentionBackward(op), inputs, 1e-5));
  }
  return all;
}

}  // namespace ops

Tensor linear_attention(const Tensor& f, const Tensor& g, const Tensor& v, std::int64_t heads,
                        double floor) {
  return run_one(ops::LinearAttention(heads, floor), {f, g, v});
}

}  // namespace hg
