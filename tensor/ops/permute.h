// Copies a tensor with its axes in another order: out[i_perm[0], i_perm[1], ..] = in[i_0, i_1, ..].
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

class Permute final : public OpOf<Permute> {
 public:
  explicit Permute(const Shape& order) : order(order) {}  // output axis i is input axis order[i]

  std::string_view name() const override { return "permute"; }
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override { return elementwise_cost(in, out, 0); }
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override { return {.in = {}, .out = {}}; }
  Indices strided_inputs() const override { return {0}; }
  static Samples samples();

  const Shape order;
};

}  // namespace ops

Tensor permute(const Tensor& x, const Shape& order);

}  // namespace hg
