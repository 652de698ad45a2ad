#include "tensor/ops/favor_features.h"

#include <cmath>

#include "tensor/cpu/elementwise.h"

namespace hg::ops {
namespace {

using Shift = FavorFeatures::Shift;

// Rows are tokens of a head: x [rows, d], products [rows, m].
struct Rows {
  std::int64_t batch, n, heads, d, m;
  Rows(const Tensor& x, const Tensor& products)
      : batch(products.dim(0)),
        n(products.dim(1)),
        heads(products.dim(2)),
        d(x.dim(2) / heads),
        m(products.dim(3)) {}
  std::int64_t row(std::int64_t b, std::int64_t i, std::int64_t h) const {
    return (b * n + i) * heads + h;
  }
  double scale() const { return std::pow(static_cast<double>(d), -0.25); }
};

// body(b, h, begin, end) on tokens [begin, end) of a head: a token, or all that share a shift.
void for_groups(const Rows& at, Shift shift, auto body) {
  if (shift == Shift::sequence) {
    cpu::parallel_each(at.batch * at.heads, 1,
                       [&](std::int64_t task) { body(task / at.heads, task % at.heads, 0, at.n); });
    return;
  }
  cpu::parallel_each(at.batch * at.n, cpu::row_grain(at.heads * at.m), [&](std::int64_t t) {
    for (std::int64_t h = 0; h < at.heads; ++h) body(t / at.n, h, t % at.n, t % at.n + 1);
  });
}

// Largest product of tokens [begin, end) of a head and the first place where it stands.
template <class T>
struct Largest {
  T value = 0;
  std::int64_t row = 0, feature = 0;
  Largest(const Rows& at, const T* products, std::int64_t b, std::int64_t h, std::int64_t begin,
          std::int64_t end) {
    value = -std::numeric_limits<T>::infinity();
    for (std::int64_t i = begin; i < end; ++i) {
      const T top = cpu::row_max(at.m, products + at.row(b, i, h) * at.m);
      if (top > value || std::isnan(top)) value = top, row = at.row(b, i, h);
    }
    const T* const from = products + row * at.m;
    feature = std::find(from, from + at.m, value) - from;
    if (feature == at.m) feature = 0;  // not a number
  }
};

void check_operands(const Op& op, In in) {
  expect_float(op, in);
  expect_rank(op, in, 0, 3);
  expect_rank(op, in, 1, 4);
  const Shape &x = in[0].shape(), &p = in[1].shape();
  require(p[0] == x[0] && p[1] == x[1] && p[2] > 0 && p[3] > 0 && x[2] % p[2] == 0, op.name(),
          "products {} do not fit {}", in[1], in[0]);
}

}  // namespace

TensorSpecs FavorFeatures::infer(In in) const {
  expect_inputs(*this, in, 2);
  check_operands(*this, in);
  require(eps >= 0, name(), "eps {} is negative", eps);
  return {in[1].spec({in[1].dim(0), in[1].dim(1), in[1].dim(2) * in[1].dim(3)})};
}

// |x|^2 2 per element of x; scale, max, subtract, exp, add eps, scale per product
CostParts FavorFeatures::cost(In in, In out) const {
  return elementwise_cost(in, out,
                          2 * count(in[0]) + (shift == Shift::none ? 5 : 6) * count(in[1]));
}

void FavorFeatures::cpu(In in, Out out) const {
  const Rows at(in[0], in[1]);
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    using P = cpu::Packet<T>;
    const T *const x = in[0].data<T>(), *const products = in[1].data<T>();
    const T scale = static_cast<T>(at.scale());
    const P factor = ei::pset1<P>(scale), small = cpu::splat<P>(eps);
    const P root = cpu::splat<P>(1 / std::sqrt(static_cast<double>(at.m)));
    for_groups(
        at, shift, [&](std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end) {
          const T top = shift == Shift::none
                            ? T{0}
                            : scale * Largest<T>(at, products, b, h, begin, end).value;
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t row = at.row(b, i, h);
            const T norm =
                cpu::row_sum([](auto v) { return ei::pmul(v, v); }, at.d, x + row * at.d);
            const P offset = ei::pset1<P>(-(scale * scale * norm / 2 + top));
            cpu::map(
                [&](auto v) {
                  return ei::pmul(ei::padd(cpu::vexp(ei::pmadd(v, factor, offset)), small), root);
                },
                at.m, out[0].data<T>() + row * at.m, products + row * at.m);
          }
        });
  });
}

Tensors FavorFeatures::grad(const GradArgs& args) const {
  return run(FavorFeaturesBackward(*this), {args.grad_out[0], args.out[0], args.in[0], args.in[1]});
}

Samples FavorFeatures::samples() {
  return {
      sample(FavorFeatures(Shift::token, 1e-4), {S::uniform({1, 1, 1}), S::uniform({1, 1, 1, 1})}),
      sample(FavorFeatures(Shift::token, 1e-4),
             {S::uniform({2, 5, 6}), S::uniform({2, 5, 3, 7}, -3, 3)}),
      sample(FavorFeatures(Shift::sequence, 1e-2),
             {S::uniform({2, 5, 6}), S::uniform({2, 5, 2, 7}, -3, 3)}),
      sample(FavorFeatures(Shift::sequence, 0),
             {S::uniform({1, 197, 3}), S::uniform({1, 197, 1, 4})}),
      sample(FavorFeatures(Shift::none, 0), {S::uniform({1, 3, 4}), S::uniform({1, 3, 2, 5})})};
}

TensorSpecs FavorFeaturesBackward::infer(In in) const {
  expect_floats(*this, in, 4);
  check_operands(*this, in.subspan(2));
  const TensorSpecs made = forward.infer(in.subspan(2));
  expect_shape(*this, in, 0, made[0].shape);
  expect_shape(*this, in, 1, made[0].shape);
  return {in[2].spec(), in[3].spec()};
}

// exp again from y 1, dt 1, its sum 1, scale 1 per product; the norm's part 1 per element of x
CostParts FavorFeaturesBackward::cost(In in, In out) const {
  return elementwise_cost(in, out, 4 * count(in[3]) + count(in[2]));
}

// With t the exponent: dt = dy (y - eps / sqrt(m)), dp = dt / D^(1/4), dx = - x / sqrt(D) sum dt;
// the product that is c gets minus the sum of all dt.
void FavorFeaturesBackward::cpu(In in, Out out) const {
  const Rows at(in[2], in[3]);
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    using P = cpu::Packet<T>;
    const T *const dy = in[0].data<T>(), *const y = in[1].data<T>(), *const x = in[2].data<T>(),
                   *const products = in[3].data<T>();
    T* const dx = out[0].data<T>();
    T* const dp = out[1].data<T>();
    const T scale = static_cast<T>(at.scale());
    const P small = cpu::splat<P>(forward.eps / std::sqrt(static_cast<double>(at.m)));
    for_groups(at, forward.shift,
               [&](std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end) {
                 T total = 0;
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t row = at.row(b, i, h), from = row * at.m;
                   const T sum =
                       cpu::map_sum([&](auto g, auto v) { return ei::pmul(g, ei::psub(v, small)); },
                                    at.m, dp + from, dy + from, y + from);
                   cpu::scale_row(at.m, scale, dp + from, dp + from);
                   cpu::scale_row(at.d, -scale * scale * sum, x + row * at.d, dx + row * at.d);
                   total += sum;
                 }
                 if (forward.shift == Shift::none) return;
                 const Largest<T> top(at, products, b, h, begin, end);
                 dp[top.row * at.m + top.feature] -= scale * total;
               });
  });
}

Samples FavorFeaturesBackward::samples() {
  Samples all;
  for (const Sample& from : FavorFeatures::samples()) {
    const auto& op = dynamic_cast<const FavorFeatures&>(*from.op);
    const Shape& p = from.inputs[1].shape;
    const Shape y{p[0], p[1], p[2] * p[3]};
    all.push_back(sample(FavorFeaturesBackward(op),
                         {S::uniform(y), S::uniform(y, 0, 1), from.inputs[0], from.inputs[1]}));
  }
  return all;
}

}  // namespace hg::ops
