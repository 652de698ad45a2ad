// y = x + b and y = x * b, where b has the trailing axes of x and is repeated over the leading
// ones; and the sum over leading axes, which is the gradient of b (and of a linear layer's bias).
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

class Broadcast final : public OpOf<Broadcast> {
 public:
  enum class Kind { add, mul };
  explicit Broadcast(Kind kind) : kind(kind) {}
  HG_DECLARE_OP(kind == Kind::add ? "add_leading" : "mul_leading");
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override;

  const Kind kind;
};

// inputs x or, for the sum of a product, x and z of equal shape
class SumLeading final : public OpOf<SumLeading> {
 public:
  explicit SumLeading(int trailing_rank, bool product = false)
      : trailing_rank(trailing_rank), product(product) {}
  HG_DECLARE_OP("sum_leading");
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override;

  const int trailing_rank;  // axes that remain
  const bool product;
};

}  // namespace ops

Tensor add_leading(const Tensor& x, const Tensor& b);
Tensor mul_leading(const Tensor& x, const Tensor& b);
Tensor sum_leading(const Tensor& x, int trailing_rank);
Tensor dot_leading(const Tensor& x, const Tensor& z, int trailing_rank);  // sums x * z

}  // namespace hg
