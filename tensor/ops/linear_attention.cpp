#include "tensor/ops/linear_attention.h"

#include "tensor/cpu/reduce.h"
#include "tensor/cpu/scratch.h"
#include "tensor/ops/attention/token_heads.h"

namespace hg::ops {
namespace {

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

// Each head on one thread, or, where heads are fewer than threads, each product on all of them.
void for_heads(const Sizes& s, auto body) {
  const std::int64_t all = s.batch * s.heads;
  if (all >= cpu::threads()) {
    cpu::parallel_each(all, 1,
                       [&](std::int64_t head) { body(head / s.heads, head % s.heads, head); });
  } else {
    for (std::int64_t head = 0; head < all; ++head) body(head / s.heads, head % s.heads, head);
  }
}

template <class T>
struct Forward {
  Sizes s;
  TokenHeads<T> f, g, v, o;
  T *state, *z, *den;  // z and den null without a denominator
  T floor;

  void operator()(std::int64_t b, std::int64_t h, std::int64_t head) const {
    T* const S = state + head * s.f * s.d;
    cpu::gemm<T>(s.f, s.d, s.m, g.matrix(b, h).transposed(), v.matrix(b, h), S, s.d);
    cpu::gemm<T>(s.n, s.d, s.f, f.matrix(b, h), {S, s.d, 1}, o.at(b, h), o.row);
    if (!z) return;
    T* const sums = z + head * s.f;
    cpu::sum_rows<T>(s.m, s.f, g.row, g.at(b, h), sums);
    cpu::parallel_each(s.n, cpu::row_grain(s.f + s.d), [&](std::int64_t i) {
      T& sum = den[head * s.n + i];
      sum = cpu::dot<T>(s.f, f.at(b, h) + i * f.row, sums);
      T* const row = o.at(b, h) + i * o.row;
      cpu::scale_row<T>(s.d, T{1} / std::max(sum, floor), row, row);
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
  void operator()(std::int64_t b, std::int64_t h, std::int64_t head) const {
    const cpu::Scratch<T> num(z ? s.n * s.d : 0), dden(z ? s.n : 0), dS(s.f * s.d), dz(s.f);
    cpu::Matrix<T> dnum = grad_o.matrix(b, h);
    if (z) {
      quotient(b, h, head, num, dden);
      dnum = {num, s.d, 1};
    }
    const cpu::Matrix<T> S{state + head * s.f * s.d, s.d, 1}, dS_matrix{dS, s.d, 1};
    cpu::gemm<T>(s.n, s.f, s.d, dnum, S.transposed(), df.at(b, h), df.row);
    cpu::gemm<T>(s.f, s.d, s.n, f.matrix(b, h).transposed(), dnum, dS, s.d);
    cpu::Epilogue<T> plus_dz;
    if (z) {
      denominator(b, h, z + head * s.f, dden, dz);
      plus_dz.bias = dz;
    }
    cpu::gemm<T>(s.m, s.f, s.d, v.matrix(b, h), dS_matrix.transposed(), dg.at(b, h), dg.row,
                 plus_dz);
    cpu::gemm<T>(s.m, s.d, s.f, g.matrix(b, h), dS_matrix, dv.at(b, h), dv.row);
  }

  void quotient(std::int64_t b, std::int64_t h, std::int64_t head, T* num, T* dden) const {
    cpu::parallel_each(s.n, cpu::row_grain(s.d), [&](std::int64_t i) {
      const T* const row = grad_o.at(b, h) + i * grad_o.row;
      const T sum = den[head * s.n + i], inverse = T{1} / std::max(sum, floor);
      cpu::scale_row<T>(s.d, inverse, row, num + i * s.d);
      // where the floor holds, the denominator is a constant
      dden[i] = sum < floor ? T{0} : -cpu::dot<T>(s.d, row, o.at(b, h) + i * o.row) * inverse;
    });
  }
  void denominator(std::int64_t b, std::int64_t h, const T* sums, const T* dden, T* dz) const {
    std::fill_n(dz, s.f, T{0});
    for (std::int64_t i = 0; i < s.n; ++i) {
      cpu::add_scaled<T>(s.f, dden[i], sums, df.at(b, h) + i * df.row);
      cpu::add_scaled<T>(s.f, dden[i], f.at(b, h) + i * f.row, dz);
    }
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
  TensorSpecs specs{in[0].spec({s.batch, s.n, heads * s.d}),
                    in[0].spec({s.batch, heads, s.f, s.d})};
  for (const std::int64_t size : {s.f, s.n})
    if (normalised()) specs.push_back(in[0].spec({s.batch, heads, size}));
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
    const auto head = [&](const Tensor& t) { return token_heads<T>(t, heads); };
    for_heads(s, Forward<T>{s, head(in[0]), head(in[1]), head(in[2]), head(out[0]),
                            out[1].data<T>(), normalised() ? out[2].data<T>() : nullptr,
                            normalised() ? out[3].data<T>() : nullptr, static_cast<T>(floor)});
  });
}

Tensors LinearAttention::grad(const GradArgs& args) const {
  const Tensors first = joined({args.grad_out[0]}, args.in);
  return run(LinearAttentionBackward(*this), joined(first, args.out));
}

Samples LinearAttention::samples() {
  const auto inputs = [](std::int64_t b, std::int64_t n, std::int64_t m, std::int64_t f,
                         std::int64_t d) {
    return std::vector{S::uniform({b, n, f}, 0.1, 1), S::uniform({b, m, f}, 0.1, 1),
                       S::uniform({b, m, d})};
  };
  return {sample(LinearAttention(1, 1e-6), inputs(1, 1, 1, 1, 1)),
          sample(LinearAttention(3, 1e-6), inputs(2, 7, 5, 12, 6)),
          sample(LinearAttention(1, 1e-6), inputs(1, 197, 197, 4, 3), 1e-5),
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
    const auto head = [&](const Tensor& t) { return token_heads<T>(t, forward.heads); };
    for_heads(s, Backward<T>{s, head(in[1]), head(in[2]), head(in[3]), head(in[4]), head(in[0]),
                             head(out[0]), head(out[1]), head(out[2]), in[5].data<T>(),
                             forward.normalised() ? in[6].data<T>() : nullptr,
                             forward.normalised() ? in[7].data<T>() : nullptr,
                             static_cast<T>(forward.floor)});
  });
}

Samples LinearAttentionBackward::samples() {
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

}  // namespace hg::ops
