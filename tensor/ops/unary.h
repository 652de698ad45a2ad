// Elementwise functions of one tensor; each is a row of unary_rows.inc.
#pragma once

#include "tensor/op.h"

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
  HG_DECLARE_OP(name_of(kind));
  static std::string_view name_of(UnaryKind kind);
  Tensors grad(const GradArgs& args) const override;
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

Tensor scale(const Tensor& x, double factor);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor elu1(const Tensor& x);  // elu(x) + 1: x + 1 for x > 0, e^x otherwise
Tensor gelu(const Tensor& x);  // x Phi(x), by erf
Tensor square(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor clamp(const Tensor& x, double low, double high);

}  // namespace hg
