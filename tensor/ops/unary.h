// Elementwise functions of one tensor; each is a row of unary_rows.inc.
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

enum class UnaryKind {
#define HG_UNARY(kind, ...) kind,
#include "tensor/ops/unary_rows.inc"
#undef HG_UNARY
};

class Unary final : public OpOf<Unary> {
 public:
  explicit Unary(UnaryKind kind, double a = 0, double b = 0) : kind(kind), a(a), b(b) {}
  HG_DECLARE_DIFFERENTIABLE_OP(name_of(kind));
  static std::string_view name_of(UnaryKind kind);
  Saved saved() const override;

  const UnaryKind kind;
  const double a, b;  // scale: factor a; clamp: range [a, b]
};

// inputs dy and, where the row keeps one, x or y
class UnaryBackward final : public GradientOp<UnaryBackward> {
 public:
  explicit UnaryBackward(UnaryKind kind, double a = 0, double b = 0) : kind(kind), a(a), b(b) {}
  HG_DECLARE_OP(name_of(kind));
  static std::string_view name_of(UnaryKind kind);

  const UnaryKind kind;
  const double a, b;
};

}  // namespace ops

// Each gives a tensor of the same shape.
inline Tensor scale(const Tensor& x, double factor) {
  return run_one(ops::Unary(ops::UnaryKind::scale, factor), {x});
}
inline Tensor exp(const Tensor& x) { return run_one(ops::Unary(ops::UnaryKind::exp), {x}); }
inline Tensor log(const Tensor& x) { return run_one(ops::Unary(ops::UnaryKind::log), {x}); }
inline Tensor sqrt(const Tensor& x) { return run_one(ops::Unary(ops::UnaryKind::sqrt), {x}); }
inline Tensor tanh(const Tensor& x) { return run_one(ops::Unary(ops::UnaryKind::tanh), {x}); }
inline Tensor sigmoid(const Tensor& x) { return run_one(ops::Unary(ops::UnaryKind::sigmoid), {x}); }
inline Tensor relu(const Tensor& x) { return run_one(ops::Unary(ops::UnaryKind::relu), {x}); }
// elu(x) + 1: x + 1 for x > 0, e^x otherwise
inline Tensor elu1(const Tensor& x) { return run_one(ops::Unary(ops::UnaryKind::elu1), {x}); }
// x Phi(x), by erf
inline Tensor gelu(const Tensor& x) { return run_one(ops::Unary(ops::UnaryKind::gelu), {x}); }
inline Tensor square(const Tensor& x) { return run_one(ops::Unary(ops::UnaryKind::square), {x}); }
inline Tensor abs(const Tensor& x) { return run_one(ops::Unary(ops::UnaryKind::abs), {x}); }
inline Tensor clamp(const Tensor& x, double low, double high) {
  return run_one(ops::Unary(ops::UnaryKind::clamp, low, high), {x});
}

}  // namespace hg
