// cross_entropy of logits against labels: loss = sum over rows of -sum_j t_j log softmax(x)_j, over
// a denominator; t = (1 - e) onehot(label) + e / C with label smoothing e.
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

struct CrossEntropyOptions {
  double label_smoothing = 0;    // e, in [0, 1)
  std::int64_t denominator = 0;  // 0: the rows; a group's loss is divided by the whole batch's rows
};

// inputs logits [B,C], labels i64 [B]; outputs loss [1] and the auxiliary logsumexp [B] of each row
class CrossEntropy final : public OpOf<CrossEntropy> {
 public:
  explicit CrossEntropy(const CrossEntropyOptions& options) : options(options) {}
  HG_DECLARE_DIFFERENTIABLE_OP("cross_entropy");
  Saved saved() const override { return {.in = {0, 1}, .out = {1}}; }
  Indices auxiliary_outputs() const override { return {1}; }

  const CrossEntropyOptions options;
};

// inputs dy [1], logits, labels, logsumexp
class CrossEntropyBackward final : public GradientOp<CrossEntropyBackward> {
 public:
  explicit CrossEntropyBackward(const CrossEntropyOptions& options) : options(options) {}
  HG_DECLARE_OP("cross_entropy_backward");

  const CrossEntropyOptions options;
};

}  // namespace ops

// logits [B, C], labels i64 [B] -> loss [1], the mean over rows unless a denominator is given
inline Tensor cross_entropy(const Tensor& logits, const Tensor& labels, double label_smoothing = 0,
                            std::int64_t denominator = 0) {
  return run_one(ops::CrossEntropy({label_smoothing, denominator}), {logits, labels});
}

}  // namespace hg
