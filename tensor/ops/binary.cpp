#include "tensor/ops/binary.h"

#include "tensor/cpu/elementwise.h"
#include "tensor/ops/unary.h"

namespace hg::ops {

TensorSpecs Binary::infer(In in) const {
  expect_floats(*this, in, 2);
  expect_shape(*this, in, 1, in[0].shape());
  return {in[0].spec()};
}

CostParts Binary::cost(In in, In out) const { return elementwise_cost(in, out, count(out[0])); }

void Binary::cpu(In in, Out out) const {
  switch (kind) {
    case Kind::add:
      return cpu::elementwise<2>(in, out[0], [](auto a, auto b) { return ei::padd(a, b); });
    case Kind::sub:
      return cpu::elementwise<2>(in, out[0], [](auto a, auto b) { return ei::psub(a, b); });
    case Kind::mul:
      return cpu::elementwise<2>(in, out[0], [](auto a, auto b) { return ei::pmul(a, b); });
    case Kind::div:
      return cpu::elementwise<2>(in, out[0], [](auto a, auto b) { return ei::pdiv(a, b); });
  }
}

// add: dy, dy    sub: dy, -dy    mul: dy b, dy a    div: dy / b, -(dy / b) y
Tensors Binary::grad(const GradArgs& args) const {
  const Tensor& dy = args.grad_out[0];
  Tensors grads(2);
  switch (kind) {
    case Kind::add:
      return {dy, dy};
    case Kind::sub:
      grads[0] = dy;
      if (args.needs(1)) grads[1] = scale(dy, -1);
      break;
    case Kind::mul:
      if (args.needs(0)) grads[0] = mul(dy, args.in[1]);
      if (args.needs(1)) grads[1] = mul(dy, args.in[0]);
      break;
    case Kind::div:
      grads[0] = div(dy, args.in[1]);
      if (args.needs(1)) grads[1] = scale(mul(grads[0], args.out[0]), -1);
      break;
  }
  return grads;
}

Saved Binary::saved() const {
  if (kind == Kind::mul) return {.in = {0, 1}, .out = {}};
  if (kind == Kind::div) return {.in = {1}, .out = {0}};
  return {.in = {}, .out = {}};
}

Samples Binary::samples() {
  Samples all;
  for (const Kind kind : {Kind::add, Kind::sub, Kind::mul, Kind::div})
    for (const Shape& shape : {Shape{1}, Shape{3, 197}, Shape{2, 3, 5, 7}, Shape{0, 3}})
      all.push_back(
          sample(Binary(kind), {SampleInput::uniform(shape), SampleInput::uniform(shape, 0.5, 2)}));
  return all;
}

}  // namespace hg::ops
