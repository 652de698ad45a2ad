// One EM step on keys as centres of a Gaussian mixture over queries: with w_ij the weights of
// attention on the present keys, k'_j = (theta k0_j + a sum_i w_ij q_i) / (theta + a sum_i w_ij),
// a = 1 / sqrt(D). A key without any weight, and theta = 0, stays as it is. Or the same step on the
// values: v'_j = (theta v_j + beta sum_i w_ij v_i) / (theta + beta sum_i w_ij).
// Inputs: qkv [B, N, 3 H D], which holds q, k0 and v, and the present keys [B, N, H D] unless they
// are k0 -> [B, N, H D].
#pragma once

#include "tensor/ops/attention/quadratic_options.h"
#include "tensor/run.h"

namespace hg {

struct KeyUpdateOptions {
  std::int64_t heads = 1;
  double theta = 1;            // precision of the prior around k0, or v
  bool dot_scores = false;     // weights of softmax instead of Gaussians
  bool stop_gradient = false;  // no gradient flows through the weights
  bool values = false;         // update the values, not the keys
  double beta = 1;             // for values: in place of a

  // Options of the attention that gives the weights; apart: the present keys are not k0.
  QuadraticOptions scores(bool apart) const;
};

namespace ops {

// outputs keys or values, and for the gradient lse and the sums of weights, both [B, H, N];
// parts of the cost, as backward: qk, weights, wq or wv
class KeyUpdate final : public OpOf<KeyUpdate> {
 public:
  explicit KeyUpdate(const KeyUpdateOptions& options) : options(options) {}
  HG_DECLARE_DIFFERENTIABLE_OP(options.values ? "value_update" : "key_update");
  Indices auxiliary_outputs() const override { return {1, 2}; }

  const KeyUpdateOptions options;
};

// inputs dk', the forward's outputs, then its inputs; outputs their gradients
class KeyUpdateBackward final : public GradientOp<KeyUpdateBackward> {
 public:
  explicit KeyUpdateBackward(const KeyUpdateOptions& options) : options(options) {}
  HG_DECLARE_OP(options.values ? "value_update_backward" : "key_update_backward");

  const KeyUpdateOptions options;
};

}  // namespace ops

// `keys` may be undefined: those in qkv.
inline Tensor key_update(const KeyUpdateOptions& options, const Tensor& qkv, const Tensor& keys) {
  const ops::KeyUpdate op(options);
  return keys.defined() ? run_one(op, {qkv, keys}) : run_one(op, {qkv});
}

}  // namespace hg
