// Elementwise a + b, a - b, a * b, a / b on equal shapes.
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

class Binary final : public OpOf<Binary> {
 public:
  enum class Kind { add, sub, mul, div };
  static constexpr std::string_view kNames[] = {"add", "sub", "mul", "div"};
  explicit Binary(Kind kind) : kind(kind) {}
  HG_DECLARE_DIFFERENTIABLE_OP(kNames[static_cast<int>(kind)]);
  Saved saved() const override;

  const Kind kind;
};

}  // namespace ops

// Of two tensors of the same shape and type; ops/broadcast.h repeats the smaller one.
inline Tensor add(const Tensor& a, const Tensor& b) {
  return run_one(ops::Binary(ops::Binary::Kind::add), {a, b});
}
inline Tensor sub(const Tensor& a, const Tensor& b) {
  return run_one(ops::Binary(ops::Binary::Kind::sub), {a, b});
}
inline Tensor mul(const Tensor& a, const Tensor& b) {
  return run_one(ops::Binary(ops::Binary::Kind::mul), {a, b});
}
inline Tensor div(const Tensor& a, const Tensor& b) {
  return run_one(ops::Binary(ops::Binary::Kind::div), {a, b});
}

}  // namespace hg
