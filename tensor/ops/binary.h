// Elementwise a + b, a - b, a * b, a / b on equal shapes.
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

class Binary final : public OpOf<Binary> {
 public:
  enum class Kind { add, sub, mul, div };
  explicit Binary(Kind kind) : kind(kind) {}

  std::string_view name() const override;
  TensorSpecs infer(In in) const override;
  CostParts cost(In in, In out) const override;
  void cpu(In in, Out out) const override;
  HG_CUDA_KERNEL;
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override;
  static Samples samples();

  const Kind kind;
};

}  // namespace ops

Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);

}  // namespace hg
