// Attention on a fixed support: scores only at its pairs, softmax over each query's list, weighted
// sum of the listed values. A query without a pair gives 0. The weights are kept for the gradient.
// Inputs: q [B, N, H D]; k and v [R, D], the kept keys of image by image, head by head.
// Outputs: o [B, N, H D]; weights [P], of image by image the pairs in the support's order.
#pragma once

#include "tensor/ops/attention/pair_support.h"
#include "tensor/run.h"

namespace hg {

struct SparseAttentionOptions {
  Supports supports;
  bool rbf = false;    // logits -|q - k|^2 / (2 sqrt(D)) in place of q.k / sqrt(D)
  double dropout = 0;  // of weights, with draws of stream `key` from `first` on
  std::uint64_t key = 0, first = 0;
};

namespace ops {

// parts of the cost, as backward: qk, softmax, av
class SparseAttention final : public OpOf<SparseAttention> {
 public:
  explicit SparseAttention(SparseAttentionOptions options) : options(std::move(options)) {}
  HG_DECLARE_DIFFERENTIABLE_OP("sparse_attention");
  Indices auxiliary_outputs() const override { return {1}; }

  const SparseAttentionOptions options;
};

// inputs do, o, weights, q, k, v; outputs dq, dk, dv
class SparseAttentionBackward final : public GradientOp<SparseAttentionBackward> {
 public:
  explicit SparseAttentionBackward(SparseAttentionOptions options) : options(std::move(options)) {}
  HG_DECLARE_OP("sparse_attention_backward");

  const SparseAttentionOptions options;
};

}  // namespace ops

// q [B, N, H D]; k and v [R, D], kept keys alone -> [B, N, H D]
inline Tensor sparse_attention(const SparseAttentionOptions& options, const Tensor& q,
                               const Tensor& k, const Tensor& v) {
  return run(ops::SparseAttention(options), {{q, k, v}})[0];
}

}  // namespace hg
