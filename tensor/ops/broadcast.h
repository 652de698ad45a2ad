// y = x + b and y = x * b, where b has the trailing axes of x and is repeated over the leading
// ones; and the sum over leading axes, which is the gradient of b (and of a linear layer's bias).
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

class Broadcast final : public OpOf<Broadcast> {
 public:
  enum class Kind { add, mul };
  explicit Broadcast(Kind kind) : kind(kind) {}
  HG_DECLARE_DIFFERENTIABLE_OP(kind == Kind::add ? "add_leading" : "mul_leading");
  Saved saved() const override;

  const Kind kind;
};

// inputs x or, for the sum of a product, x and z of equal shape
class SumLeading final : public OpOf<SumLeading> {
 public:
  explicit SumLeading(int trailing_rank, bool product = false)
      : trailing_rank(trailing_rank), product(product) {}
  HG_DECLARE_DIFFERENTIABLE_OP("sum_leading");
  Saved saved() const override;

  const int trailing_rank;  // axes that remain
  const bool product;
};

}  // namespace ops

// x [.., D], b [D] -> [.., D]; b may have more axes, the last ones of x.
inline Tensor add_leading(const Tensor& x, const Tensor& b) {
  return run_one(ops::Broadcast(ops::Broadcast::Kind::add), {x, b});
}
inline Tensor mul_leading(const Tensor& x, const Tensor& b) {
  return run_one(ops::Broadcast(ops::Broadcast::Kind::mul), {x, b});
}
// Sums all axes but the last `trailing_rank`.
inline Tensor sum_leading(const Tensor& x, int trailing_rank) {
  return run_one(ops::SumLeading(trailing_rank), {x});
}
// sums x * z
inline Tensor dot_leading(const Tensor& x, const Tensor& z, int trailing_rank) {
  return run_one(ops::SumLeading(trailing_rank, true), {x, z});
}

}  // namespace hg
