// Copies a tensor with its axes in another order: out[i_perm[0], i_perm[1], ..] = in[i_0, i_1, ..].
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

class Permute final : public OpOf<Permute> {
 public:
  explicit Permute(const Shape& order) : order(order) {}  // output axis i is input axis order[i]
  HG_DECLARE_DIFFERENTIABLE_OP("permute");
  Saved saved() const override { return {.in = {}, .out = {}}; }
  Indices strided_inputs() const override { return {0}; }

  const Shape order;
};

}  // namespace ops

// Output axis i is input axis order[i]: permute(x, {1, 0}) transposes a matrix.
inline Tensor permute(const Tensor& x, const Shape& order) {
  return run_one(ops::Permute(order), {x});
}

}  // namespace hg
