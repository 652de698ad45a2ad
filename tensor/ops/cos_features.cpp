#include "tensor/ops/cos_features.h"

#include <cmath>
#include <numbers>

#include "tensor/cpu/elementwise.h"
#include "tensor/ops/gather.h"

namespace hg::ops {
namespace {

void check_operands(const Op& op, In in, std::int64_t heads, std::int64_t period) {
  require(in.size() == 1 || in.size() == 2, op.name(), "expected x and ids, got {} inputs",
          in.size());
  expect_float(op, in.first(1));
  expect_rank(op, in, 0, 3);
  require(heads > 0 && in[0].dim(2) % heads == 0, op.name(), "{} does not hold {} heads", in[0],
          heads);
  require(period > 0, op.name(), "period {}", period);
  if (in.size() == 1) {
    require(in[0].dim(1) <= period, op.name(), "{} has more tokens than {} positions", in[0],
            period);
    return;
  }
  expect_dtype(op, in, 1, DType::i64);
  const Shape& ids = in[1].shape();
  require((ids == Shape{in[0].dim(1)}) || (ids == Shape{in[0].dim(0), in[0].dim(1)}), op.name(),
          "ids {} do not fit {}", in[1], in[0]);
}

// body(row of x, head, cos, sin) for every token and head.
template <class T, class Body>
void for_tokens(const Op& op, In in, std::int64_t heads, std::int64_t period, Body body) {
  const std::int64_t* const ids = in.size() > 1 ? in[1].data<std::int64_t>() : nullptr;
  if (ids) check_ids(op, in[1], period, "positions");
  const std::int64_t n = in[0].dim(1), tokens = in[0].dim(0) * n;
  const bool per_image = ids && in[1].rank() == 2;
  cpu::parallel_each(tokens, cpu::row_grain(in[0].dim(2)), [&](std::int64_t t) {
    const std::int64_t position = ids ? ids[per_image ? t : t % n] : t % n;
    const double angle =
        std::numbers::pi * static_cast<double>(position + 1) / (2 * static_cast<double>(period));
    for (std::int64_t h = 0; h < heads; ++h)
      body(t * heads + h, static_cast<T>(std::cos(angle)), static_cast<T>(std::sin(angle)));
  });
}

}  // namespace

TensorSpecs CosFeatures::infer(In in) const {
  check_operands(*this, in, heads, period);
  TensorSpec spec = in[0].spec();
  spec.shape[2] *= 2;
  return {spec};
}

// relu, two products
CostParts CosFeatures::cost(In in, In out) const {
  return elementwise_cost(in, out, 3 * count(in[0]));
}

void CosFeatures::cpu(In in, Out out) const {
  const std::int64_t d = in[0].dim(2) / heads;
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    using P = cpu::Packet<T>;
    for_tokens<T>(*this, in, heads, period, [&](std::int64_t row, T cosine, T sine) {
      const T* const x = in[0].data<T>() + row * d;
      T* const y = out[0].data<T>() + 2 * row * d;
      const P zero = cpu::splat<P>(0.0), c = ei::pset1<P>(cosine), s = ei::pset1<P>(sine);
      cpu::map([&](auto v) { return ei::pmul(ei::pmax(v, zero), c); }, d, y, x);
      cpu::map([&](auto v) { return ei::pmul(ei::pmax(v, zero), s); }, d, y + d, x);
    });
  });
}

Tensors CosFeatures::grad(const GradArgs& args) const {
  Tensors grads(args.in.size());
  grads[0] = run(CosFeaturesBackward(heads, period), joined({args.grad_out[0]}, args.in))[0];
  return grads;
}

Samples CosFeatures::samples() {
  return {sample(CosFeatures(1, 1), {S::uniform({1, 1, 1})}),
          sample(CosFeatures(3, 197), {S::uniform({2, 5, 6}), S::integers({2, 5}, 197)}),
          sample(CosFeatures(1, 197), {S::uniform({1, 197, 3})}),
          sample(CosFeatures(2, 9), {S::uniform({3, 4, 6}), S::integers({4}, 9)}),
          sample(CosFeatures(2, 9), {S::uniform({2, 3, 16})})};
}

TensorSpecs CosFeaturesBackward::infer(In in) const {
  require(in.size() >= 2, name(), "expected dy and x, got {} inputs", in.size());
  check_operands(*this, in.subspan(1), heads, period);
  expect_float(*this, in.first(2));
  Shape doubled = in[1].shape();
  doubled[2] *= 2;
  expect_shape(*this, in, 0, doubled);
  return {in[1].spec()};
}

// two products, their sum, relu's choice
CostParts CosFeaturesBackward::cost(In in, In out) const {
  return elementwise_cost(in, out, 4 * count(out[0]));
}

void CosFeaturesBackward::cpu(In in, Out out) const {
  const std::int64_t d = in[1].dim(2) / heads;
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    using P = cpu::Packet<T>;
    for_tokens<T>(*this, in.subspan(1), heads, period, [&](std::int64_t row, T cosine, T sine) {
      const T* const dy = in[0].data<T>() + 2 * row * d;
      const P zero = cpu::splat<P>(0.0), c = ei::pset1<P>(cosine), s = ei::pset1<P>(sine);
      cpu::map(
          [&](auto a, auto b, auto v) {
            return ei::pselect(ei::pcmp_lt(zero, v), P(ei::pmadd(a, c, ei::pmul(b, s))), zero);
          },
          d, out[0].data<T>() + row * d, dy, dy + d, in[1].data<T>() + row * d);
    });
  });
}

Samples CosFeaturesBackward::samples() {
  return {sample(CosFeaturesBackward(1, 1), {S::uniform({1, 1, 2}), S::uniform({1, 1, 1})}),
          sample(CosFeaturesBackward(3, 197),
                 {S::uniform({2, 5, 12}), S::uniform({2, 5, 6}), S::integers({2, 5}, 197)}),
          sample(CosFeaturesBackward(1, 197), {S::uniform({1, 197, 6}), S::uniform({1, 197, 3})}),
          sample(CosFeaturesBackward(2, 9), {S::uniform({2, 3, 32}), S::uniform({2, 3, 16})})};
}

}  // namespace hg::ops
