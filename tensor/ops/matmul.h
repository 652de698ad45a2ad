// Matrix products: [.., m, k] x [.., k, n] with equal leading axes, or with one [k, n] for all.
// Either side may be a transposed view (hg::transpose), which is read in place.
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

class Matmul final : public OpOf<Matmul> {
 public:
  HG_DECLARE_DIFFERENTIABLE_OP("matmul");
  Saved saved() const override { return {.in = {0, 1}, .out = {}}; }
  Indices strided_inputs() const override { return {0, 1}; }
};

// sum += a b, of two axes each, in place; outputs the sum
class MatmulAdd final : public GradientOp<MatmulAdd> {
 public:
  HG_DECLARE_OP("matmul_add");
  Indices strided_inputs() const override { return {0, 1}; }
};

}  // namespace ops

// [.., m, k] x [.., k, n] -> [.., m, n]
inline Tensor matmul(const Tensor& a, const Tensor& b) { return run_one(ops::Matmul(), {a, b}); }
// a b, added to `sum` in place if that is defined.
inline Tensor matmul_into(const Tensor& sum, const Tensor& a, const Tensor& b) {
  return sum.defined() ? run_one(ops::MatmulAdd(), {a, b, sum}) : matmul(a, b);
}

}  // namespace hg
