// concat joins tensors along an axis, split cuts one into pieces: each is the other's gradient.
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

class Concat final : public OpOf<Concat> {
 public:
  explicit Concat(int axis) : axis(axis) {}

  std::string_view name() const override { return "concat"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override { return elementwise_cost(in, out, 0); }
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override { return {.in = {}, .out = {}}; }
  static Samples samples();

  const int axis;
};

class Split final : public OpOf<Split> {
 public:
  Split(int axis, CachedVector<std::int64_t> sizes) : axis(axis), sizes(std::move(sizes)) {}

  std::string_view name() const override { return "split"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override { return elementwise_cost(in, out, 0); }
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override { return {.in = {}, .out = {}}; }
  static Samples samples();

  const int axis;
  const CachedVector<std::int64_t> sizes;  // add up to the axis
};

}  // namespace ops

Tensor concat(In parts, int axis);
inline Tensor concat(std::initializer_list<Tensor> parts, int axis) {
  return concat(In(parts.begin(), parts.size()), axis);
}
Tensors split(const Tensor& x, CachedVector<std::int64_t> sizes, int axis);

}  // namespace hg
