// Matrix products: [.., m, k] x [.., k, n] with equal leading axes, or with one [k, n] for all.
// Either side may be a transposed view (hg::transpose), which is read in place.
#pragma once

#include "tensor/op.h"

namespace hg {
namespace ops {

class Matmul final : public OpOf<Matmul> {
 public:
  HG_DECLARE_OP("matmul");
  Tensors grad(const GradArgs& args) const override;
  Saved saved() const override { return {.in = {0, 1}, .out = {}}; }
  Indices strided_inputs() const override { return {0, 1}; }
};

}  // namespace ops

Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace hg
