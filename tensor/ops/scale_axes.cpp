#include "tensor/ops/scale_axes.h"

#include "tensor/cpu/elementwise.h"

namespace hg::ops {
namespace {

// x as [outer, n, inner], s being [n].
AxisView view_of(const Shape& x, int first, int last) {
  return {x.product(0, first), x.product(first, last), x.product(last, x.rank())};
}

template <class T>
void scale_rows(const AxisView& view, const T* x, const T* s, T* y) {
  cpu::parallel_each(view.outer * view.n, cpu::row_grain(view.inner), [&](std::int64_t row) {
    cpu::scale_row(view.inner, s[row % view.n], x + row * view.inner, y + row * view.inner);
  });
}

template <class T>
void dot_rows(const AxisView& view, const T* dy, const T* x, T* ds) {
  cpu::parallel_each(view.n, cpu::row_grain(view.outer * view.inner), [&](std::int64_t i) {
    T sum = 0;
    for (std::int64_t o = 0; o < view.outer; ++o) {
      const std::int64_t at = (o * view.n + i) * view.inner;
      sum += cpu::dot(view.inner, dy + at, x + at);
    }
    ds[i] = sum;
  });
}

}  // namespace

TensorSpecs ScaleAxes::infer(In in) const {
  expect_floats(*this, in, 2);
  const Shape &x = in[0].shape(), &s = in[1].shape();
  require(first >= 0 && first + s.rank() <= x.rank() && x.slice(first, first + s.rank()) == s,
          name(), "{} has no axes {} from {} on", x, s, first);
  return {in[0].spec()};
}

CostParts ScaleAxes::cost(In in, In out) const {
  if (count(out[0]) == 0) return Cost{};  // nothing is read
  return elementwise_cost(in, out, count(out[0]));
}

void ScaleAxes::cpu(In in, Out out) const {
  const AxisView view = view_of(in[0].shape(), first, first + in[1].rank());
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    scale_rows(view, in[0].data<T>(), in[1].data<T>(), out[0].data<T>());
  });
}

// dx = dy s, ds = sum dy x
Tensors ScaleAxes::grad(const GradArgs& args) const {
  Tensors grads(2);
  const Tensor& dy = args.grad_out[0];
  if (args.needs(0)) grads[0] = scale_axes(dy, args.in[1], first);
  if (args.needs(1))
    grads[1] = run_one(DotAxes(first, first + args.in[1].rank()), {dy, args.in[0]});
  return grads;
}

Samples ScaleAxes::samples() {
  return {sample(ScaleAxes(0), {S::uniform({3, 197}), S::uniform({3})}),
          sample(ScaleAxes(0), {S::uniform({1}), S::uniform({1})}),
          sample(ScaleAxes(1), {S::uniform({2, 3, 5, 7}), S::uniform({3})}),
          sample(ScaleAxes(0), {S::uniform({2, 3, 4, 5}), S::uniform({2, 3, 4})}),
          sample(ScaleAxes(1), {S::uniform({2, 3, 4, 5}), S::uniform({3, 4, 5})}),
          sample(ScaleAxes(0), {S::uniform({3, 0}), S::uniform({3})})};
}

TensorSpecs DotAxes::infer(In in) const {
  expect_floats(*this, in, 2);
  expect_shape(*this, in, 1, in[0].shape());
  require(first >= 0 && first <= last && last <= in[0].rank(), name(), "{} has no axes {} to {}",
          in[0], first, last);
  return {in[0].spec(in[0].shape().slice(first, last))};
}

// multiply, add
CostParts DotAxes::cost(In in, In out) const { return elementwise_cost(in, out, 2 * count(in[0])); }

void DotAxes::cpu(In in, Out out) const {
  const AxisView view = view_of(in[0].shape(), first, last);
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    dot_rows(view, in[0].data<T>(), in[1].data<T>(), out[0].data<T>());
  });
}

Samples DotAxes::samples() {
  const auto both = [](const Shape& shape) {
    return std::vector{S::uniform(shape), S::uniform(shape)};
  };
  return {sample(DotAxes(0, 1), both({3, 197})),
          sample(DotAxes(0, 1), both({1})),
          sample(DotAxes(1, 2), both({2, 3, 5, 7})),
          sample(DotAxes(0, 3), both({2, 3, 4, 5})),
          sample(DotAxes(1, 4), both({2, 3, 4, 5})),
          sample(DotAxes(1, 2), both({2, 3, 4100}), 1e-5)};  // long sums
}

}  // namespace hg::ops
