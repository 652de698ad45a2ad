// y = x W^T + b, optionally followed by GELU while the tile is in registers.
// x [.., in], W [out, in], b [out] (optional) -> y [.., out].
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

// parts of the cost: product, bias, gelu
class Linear final : public OpOf<Linear> {
 public:
  // With keep_pre a GELU's argument is a second output, which the gradient needs.
  explicit Linear(bool gelu = false, bool keep_pre = false)
      : gelu(gelu), keep_pre(gelu && keep_pre) {}
  HG_DECLARE_DIFFERENTIABLE_OP(gelu ? "linear_gelu" : "linear");
  Saved saved() const override { return {.in = {0, 1}, .out = {1}}; }
  Indices auxiliary_outputs() const override { return {1}; }

  const bool gelu, keep_pre;
};

}  // namespace ops

// x [.., in], weight [out, in], bias [out] -> [.., out]
inline Tensor linear(const Tensor& x, const Tensor& weight) {
  return run_one(ops::Linear(), {x, weight});
}
inline Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return run_one(ops::Linear(), {x, weight, bias});
}
// gelu(linear(x, weight, bias)) in one pass
Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias);

}  // namespace hg
