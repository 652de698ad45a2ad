// Views: the same storage under another shape. They cost nothing and are recorded like any op.
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

template <class Derived>
class ViewOf : public OpOf<Derived> {
 public:
  CostParts cost(In, In) const final { return Cost{}; }
  void cpu(In, Out) const final {}
  void cuda(In, Out, CudaStream&) const final {}
  Saved saved() const final { return {.in = {}, .out = {}}; }
};

class Reshape final : public ViewOf<Reshape> {
 public:
  explicit Reshape(const Shape& shape) : shape(shape) {}

  std::string_view name() const override { return "reshape"; }
  TensorSpecs infer(In in) const override;
  Tensors grad(const GradArgs& args) const override;
  static Samples samples();

  const Shape shape;
};

// x[begin:end] of the leading axis.
class Slice final : public ViewOf<Slice> {
 public:
  Slice(std::int64_t begin, std::int64_t end) : begin(begin), end(end) {}

  std::string_view name() const override { return "slice"; }
  TensorSpecs infer(In in) const override;
  Tensors grad(const GradArgs& args) const override;
  static Samples samples();

  const std::int64_t begin, end;
};

// The last two axes swapped: a strided view that matrix products read in place.
class Transpose final : public ViewOf<Transpose> {
 public:
  std::string_view name() const override { return "transpose"; }
  TensorSpecs infer(In in) const override;
  Tensors grad(const GradArgs& args) const override;
  Indices strided_inputs() const override { return {0}; }
  static Samples samples();
};

}  // namespace ops

// One extent may be -1: it is what remains.
Tensor reshape(const Tensor& x, const Shape& shape);
// x[begin:end] of the leading axis
inline Tensor slice(const Tensor& x, std::int64_t begin, std::int64_t end) {
  return run_one(ops::Slice(begin, end), {x});
}
// The last two axes swapped. Ops that cannot read it take contiguous(transpose(x)).
inline Tensor transpose(const Tensor& x) { return run_one(ops::Transpose(), {x}); }

}  // namespace hg
