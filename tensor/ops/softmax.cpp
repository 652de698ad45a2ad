#include "tensor/ops/softmax.h"

#include "tensor/cpu/rows.h"

namespace hg::ops {
namespace {

template <class T>
void softmax_row(std::int64_t n, const T* x, T* y) {
  const T sum = cpu::exp_sum(n, x, T{1}, cpu::row_max(n, x), y);
  cpu::scale_row(n, T{1} / sum, y, y);
}

// The maximum is subtracted first: max + log(sum) as one number would round off large logits.
template <class T>
void log_softmax_row(std::int64_t n, const T* x, T* y) {
  const auto m = ei::pset1<cpu::Packet<T>>(cpu::row_max(n, x));
  const T sum = cpu::row_sum([&](auto v) { return cpu::vexp(ei::psub(v, m)); }, n, x);
  const auto shift = ei::pset1<cpu::Packet<T>>(std::log(sum));
  cpu::map([&](auto v) { return ei::psub(ei::psub(v, m), shift); }, n, y, x);
}

// dx = y (dy - sum_j dy_j y_j)
template <class T>
void softmax_backward_row(std::int64_t n, const T* dy, const T* y, T* dx) {
  const auto shift = ei::pset1<cpu::Packet<T>>(cpu::dot(n, dy, y));
  cpu::map([&](auto g, auto p) { return ei::pmul(p, ei::psub(g, shift)); }, n, dx, dy, y);
}

// dx = dy - exp(y) sum_j dy_j
template <class T>
void log_softmax_backward_row(std::int64_t n, const T* dy, const T* y, T* dx) {
  const auto sum = ei::pset1<cpu::Packet<T>>(cpu::row_sum(n, dy));
  cpu::map([&](auto g, auto v) { return ei::psub(g, ei::pmul(cpu::vexp(v), sum)); }, n, dx, dy, y);
}

}  // namespace

TensorSpecs Softmax::infer(In in) const {
  expect_floats(*this, in, 1);
  normalize_axis(axis, in[0].shape(), name());
  return {in[0].spec()};
}

// max, subtract, exp, add; divide or subtract
CostParts Softmax::cost(In in, In out) const {
  return elementwise_cost(in, out, 5 * count(out[0]));
}

void Softmax::cpu(In in, Out out) const {
  cpu::along_axis<1>(in, out[0], normalize_axis(axis, in[0].shape(), name()),
                     [this](std::int64_t n, auto* y, const auto* x) {
                       log ? log_softmax_row(n, x, y) : softmax_row(n, x, y);
                     });
}

Tensors Softmax::grad(const GradArgs& args) const {
  return {run_one(SoftmaxBackward(axis, log), {args.grad_out[0], args.out[0]})};
}

Samples Softmax::samples() {
  return {sample(Softmax(-1), {S::uniform({3, 197})}), sample(Softmax(0), {S::uniform({1})}),
          sample(Softmax(1), {S::uniform({2, 197, 3}, -8, 8)}),
          sample(Softmax(0), {S::uniform({5, 2, 3})}),
          sample(Softmax(-1), {S::uniform({2, 5}, -80, 80)})};
}

TensorSpecs SoftmaxBackward::infer(In in) const {
  expect_floats(*this, in, 2);
  expect_shape(*this, in, 1, in[0].shape());
  normalize_axis(axis, in[0].shape(), name());
  return {in[0].spec()};
}

// multiply, add (dot); subtract, multiply    log: add; exp, multiply, subtract
CostParts SoftmaxBackward::cost(In in, In out) const {
  return elementwise_cost(in, out, 4 * count(out[0]));
}

void SoftmaxBackward::cpu(In in, Out out) const {
  cpu::along_axis<2>(in, out[0], normalize_axis(axis, in[0].shape(), name()),
                     [this](std::int64_t n, auto* dx, const auto* dy, const auto* y) {
                       log ? log_softmax_backward_row(n, dy, y, dx)
                           : softmax_backward_row(n, dy, y, dx);
                     });
}

Samples SoftmaxBackward::samples() {
  return {sample(SoftmaxBackward(-1), {S::uniform({3, 197}), S::uniform({3, 197}, 0, 1)}),
          sample(SoftmaxBackward(1), {S::uniform({2, 5, 3}), S::uniform({2, 5, 3}, 0, 1)}),
          sample(SoftmaxBackward(0), {S::uniform({1}), S::uniform({1})})};
}

}  // namespace hg::ops
