#include "tensor/ops/log_softmax.h"

#include "tensor/cpu/rows.h"
#include "tensor/run.h"

namespace hg {
namespace ops {
namespace {

// The maximum is subtracted first: max + log(sum) as one number would round off large logits.
template <class T>
void log_softmax_row(std::int64_t n, const T* x, T* y) {
  const auto m = ei::pset1<cpu::Packet<T>>(cpu::row_max(n, x));
  const T sum = cpu::row_sum([&](auto v) { return cpu::vexp(ei::psub(v, m)); }, n, x);
  const auto shift = ei::pset1<cpu::Packet<T>>(std::log(sum));
  cpu::map([&](auto v) { return ei::psub(ei::psub(v, m), shift); }, n, y, x);
}

// dx = dy - exp(y) sum_j dy_j
template <class T>
void log_softmax_backward_row(std::int64_t n, const T* dy, const T* y, T* dx) {
  const auto sum = ei::pset1<cpu::Packet<T>>(cpu::row_sum(n, dy));
  cpu::map([&](auto g, auto v) { return ei::psub(g, ei::pmul(cpu::vexp(v), sum)); }, n, dx, dy, y);
}

}  // namespace

TensorSpecs LogSoftmax::infer(In in) const {
  expect_floats(*this, in, 1);
  normalize_axis(axis, in[0].shape(), name());
  return {in[0].spec()};
}

// max, subtract, exp, add, subtract
CostParts LogSoftmax::cost(In in, In out) const {
  return elementwise_cost(in, out, 5 * count(out[0]));
}

void LogSoftmax::cpu(In in, Out out) const {
  cpu::along_axis<1>(in, out[0], normalize_axis(axis, in[0].shape(), name()),
                     [](std::int64_t n, auto* y, const auto* x) { log_softmax_row(n, x, y); });
}

Tensors LogSoftmax::grad(const GradArgs& args) const {
  return {run_one(LogSoftmaxBackward(axis), {args.grad_out[0], args.out[0]})};
}

Samples LogSoftmax::samples() {
  return {sample(LogSoftmax(-1), {S::uniform({3, 197})}),
          sample(LogSoftmax(0), {S::uniform({1})}),
          sample(LogSoftmax(1), {S::uniform({2, 197, 3}, -8, 8)}),
          sample(LogSoftmax(0), {S::uniform({5, 2, 3})}),
          sample(LogSoftmax(-1), {S::uniform({0, 3})}),
          sample(LogSoftmax(-1), {S::uniform({2, 5}, -80, 80)})};
}

TensorSpecs LogSoftmaxBackward::infer(In in) const {
  expect_floats(*this, in, 2);
  expect_shape(*this, in, 1, in[0].shape());
  normalize_axis(axis, in[0].shape(), name());
  return {in[0].spec()};
}

// add; exp, multiply, subtract
CostParts LogSoftmaxBackward::cost(In in, In out) const {
  return elementwise_cost(in, out, 4 * count(out[0]));
}

void LogSoftmaxBackward::cpu(In in, Out out) const {
  cpu::along_axis<2>(in, out[0], normalize_axis(axis, in[0].shape(), name()),
                     [](std::int64_t n, auto* dx, const auto* dy, const auto* y) {
                       log_softmax_backward_row(n, dy, y, dx);
                     });
}

Samples LogSoftmaxBackward::samples() {
  return {sample(LogSoftmaxBackward(-1), {S::uniform({3, 197}), S::uniform({3, 197}, -9, 0)}),
          sample(LogSoftmaxBackward(1), {S::uniform({2, 5, 3}), S::uniform({2, 5, 3}, -9, 0)}),
          sample(LogSoftmaxBackward(-1), {S::uniform({0, 3}), S::uniform({0, 3})}),
          sample(LogSoftmaxBackward(0), {S::uniform({1}), S::uniform({1})})};
}

}  // namespace ops

Tensor log_softmax(const Tensor& x, int axis) { return run_one(ops::LogSoftmax(axis), {x}); }

}  // namespace hg
