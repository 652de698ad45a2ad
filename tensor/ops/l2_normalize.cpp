#include "tensor/ops/l2_normalize.h"

#include "tensor/cpu/elementwise.h"

namespace hg::ops {
namespace {

// max(norm, eps), NaN for a NaN
template <class T>
T at_least(T norm, double eps) {
  return norm <= static_cast<T>(eps) ? static_cast<T>(eps) : norm;
}

template <class T>
T l2_normalize_row(std::int64_t n, const T* x, double eps, T* y) {
  const T norm = std::sqrt(cpu::row_sum([](auto v) { return ei::pmul(v, v); }, n, x));
  cpu::scale_row(n, T{1} / at_least(norm, eps), x, y);
  return norm;
}

// dx = (dy - y (dy . y)) / norm, or dy / eps where the norm was raised to eps
template <class T>
void l2_normalize_backward_row(std::int64_t n, const T* dy, const T* y, T norm, double eps, T* dx) {
  const T dot = norm <= static_cast<T>(eps) ? T{0} : cpu::dot(n, dy, y);
  const auto along = ei::pset1<cpu::Packet<T>>(dot);
  const auto inverse = ei::pset1<cpu::Packet<T>>(T{1} / at_least(norm, eps));
  cpu::map([&](auto g, auto v) { return ei::pmul(ei::psub(g, ei::pmul(v, along)), inverse); }, n,
           dx, dy, y);
}

void expect_positive(const Op& op, double eps) {
  require(eps > 0, op.name(), "eps must be positive, got {}", eps);
}

Shape rows_of(const Tensor& x) { return x.shape().slice(0, x.rank() - 1); }

}  // namespace

TensorSpecs L2Normalize::infer(In in) const {
  expect_floats(*this, in, 1);
  expect_rank_at_least(*this, in, 0, 1);
  expect_positive(*this, eps);
  return {in[0].spec(), in[0].spec(rows_of(in[0]))};
}

// square, add; max, divide
CostParts L2Normalize::cost(In in, In out) const {
  return elementwise_cost(in, out, 4 * count(out[0]));
}

void L2Normalize::cpu(In in, Out out) const {
  const std::int64_t n = in[0].shape().back();
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    const T* x = in[0].data<T>();
    T *y = out[0].data<T>(), *norm = out[1].data<T>();
    cpu::parallel_each(out[1].numel(), cpu::row_grain(n), [&](std::int64_t r) {
      norm[r] = l2_normalize_row(n, x + r * n, eps, y + r * n);
    });
  });
}

Tensors L2Normalize::grad(const GradArgs& args) const {
  return {run_one(L2NormalizeBackward(eps), {args.grad_out[0], args.out[0], args.out[1]})};
}

Samples L2Normalize::samples() {
  return {sample(L2Normalize(1e-12), {S::uniform({3, 197})}),
          sample(L2Normalize(1e-12), {S::uniform({2, 5, 64}, -9, 9)}),
          sample(L2Normalize(1e-12), {S::uniform({1}, 0.5, 1)}),
          sample(L2Normalize(20), {S::uniform({5, 7})}),  // every norm is below eps
          sample(L2Normalize(1e-12), {S::uniform({0, 3})}),
          sample(L2Normalize(1e-12), {S::uniform({3, 0})})};
}

TensorSpecs L2NormalizeBackward::infer(In in) const {
  expect_floats(*this, in, 3);
  expect_rank_at_least(*this, in, 0, 1);
  expect_positive(*this, eps);
  expect_shape(*this, in, 1, in[0].shape());
  expect_shape(*this, in, 2, rows_of(in[0]));
  return {in[0].spec()};
}

// multiply, add (dot); multiply, subtract, divide
CostParts L2NormalizeBackward::cost(In in, In out) const {
  return elementwise_cost(in, out, 5 * count(out[0]));
}

void L2NormalizeBackward::cpu(In in, Out out) const {
  const std::int64_t n = in[0].shape().back();
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    const T *dy = in[0].data<T>(), *y = in[1].data<T>(), *norm = in[2].data<T>();
    T* dx = out[0].data<T>();
    cpu::parallel_each(in[2].numel(), cpu::row_grain(n), [&](std::int64_t r) {
      l2_normalize_backward_row(n, dy + r * n, y + r * n, norm[r], eps, dx + r * n);
    });
  });
}

Samples L2NormalizeBackward::samples() {
  Samples all;
  for (const Shape& shape :
       {Shape{3, 197}, Shape{2, 5, 64}, Shape{1}, Shape{0, 3}, Shape{3, 0}, Shape{9, 5}})
    all.push_back(sample(L2NormalizeBackward(0.8),  // between the norms
                         {S::uniform(shape), S::uniform(shape),
                          S::uniform(shape.slice(0, shape.rank() - 1), 0.5, 1)}));
  return all;
}

}  // namespace hg::ops
