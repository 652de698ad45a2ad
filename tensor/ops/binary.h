// Elementwise a + b, a - b, a * b, a / b on equal shapes.
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

class Binary final : public OpOf<Binary> {
 public:
  enum class Kind { add, sub, mul, div };
  static constexpr std::string_view kNames[] = {"add", "sub", "mul", "div"};
  explicit Binary(Kind kind) : kind(kind) {}
  HG_DECLARE_OP(kNames[static_cast<int>(kind)]);
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override;

  const Kind kind;
};

}  // namespace ops

Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);

}  // namespace hg
