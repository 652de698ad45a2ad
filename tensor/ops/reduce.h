// sum, mean, max and logsumexp over one axis.
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

class Reduce final : public OpOf<Reduce> {
 public:
  enum class Kind { sum, mean, max, logsumexp };
  static constexpr std::string_view kNames[] = {"sum", "mean", "max", "logsumexp"};
  Reduce(Kind kind, int axis, bool keepdim = false) : kind(kind), axis(axis), keepdim(keepdim) {}
  HG_DECLARE_OP(kNames[static_cast<int>(kind)]);
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override;

  const Kind kind;
  const int axis;
  const bool keepdim;
};

// inputs dy and, for max and logsumexp, x and y
class ReduceBackward final : public GradientOp<ReduceBackward> {
 public:
  static constexpr std::string_view kNames[] = {"sum_backward", "mean_backward", "max_backward",
                                                "logsumexp_backward"};
  ReduceBackward(const Reduce& forward, const Shape& shape) : forward(forward), shape(shape) {}
  HG_DECLARE_OP(kNames[static_cast<int>(forward.kind)]);

  const Reduce forward;
  const Shape shape;  // of x
};

}  // namespace ops

// Over an axis of extent 0 the sum is 0 and the others throw.
Tensor sum(const Tensor& x, int axis, bool keepdim = false);
Tensor mean(const Tensor& x, int axis, bool keepdim = false);
Tensor max(const Tensor& x, int axis, bool keepdim = false);  // the gradient goes to the first one
Tensor logsumexp(const Tensor& x, int axis, bool keepdim = false);
// Over all elements, giving [1].
Tensor sum_all(const Tensor& x);
Tensor mean_all(const Tensor& x);

}  // namespace hg
