// sum, mean, max and logsumexp over one axis.
#pragma once

#include "tensor/ops/view.h"

namespace hg {
namespace ops {

class Reduce final : public OpOf<Reduce> {
 public:
  enum class Kind { sum, mean, max, logsumexp };
  static constexpr std::string_view kNames[] = {"sum", "mean", "max", "logsumexp"};
  Reduce(Kind kind, int axis, bool keepdim = false) : kind(kind), axis(axis), keepdim(keepdim) {}
  HG_DECLARE_DIFFERENTIABLE_OP(kNames[static_cast<int>(kind)]);
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
inline Tensor sum(const Tensor& x, int axis, bool keepdim = false) {
  return run_one(ops::Reduce(ops::Reduce::Kind::sum, axis, keepdim), {x});
}
inline Tensor mean(const Tensor& x, int axis, bool keepdim = false) {
  return run_one(ops::Reduce(ops::Reduce::Kind::mean, axis, keepdim), {x});
}
// the gradient goes to the first one
inline Tensor max(const Tensor& x, int axis, bool keepdim = false) {
  return run_one(ops::Reduce(ops::Reduce::Kind::max, axis, keepdim), {x});
}
inline Tensor logsumexp(const Tensor& x, int axis, bool keepdim = false) {
  return run_one(ops::Reduce(ops::Reduce::Kind::logsumexp, axis, keepdim), {x});
}
// Over all elements, giving [1].
inline Tensor sum_all(const Tensor& x) { return sum(reshape(x, {x.numel()}), 0, true); }
inline Tensor mean_all(const Tensor& x) { return mean(reshape(x, {x.numel()}), 0, true); }

}  // namespace hg
