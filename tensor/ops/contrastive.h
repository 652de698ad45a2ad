// contrastive losses of similarities s_ij = z_i . z_j between the rows of a batch, t = s / tau.
// See nn/METHODS.md, section 6. Over anchors i (tensor/ops/label_pairs.h):
//   all:  mean over positives p of -t_p + LSE_{j != i} t_j   (supcon; ntxent has one p)
//   hard: mean over positives p of softplus(ln G_p - t_p), with negatives n, M of them:
//         ln G = LSE((beta + 1) t_n) - LSE(beta t_n) + ln M, and
//         G_p = max((G - tau_plus M e^{t_p}) / (1 - tau_plus), M e^{-1 / tau})   (hcl)
//         or, with tau_plus = 0, G itself   (hscl)
// The loss is the mean over anchors; 0 if there are none.
#pragma once

#include "tensor/op.h"

namespace hg {

struct ContrastiveOptions {
  enum class Form { all, hard };
  Form form = Form::hard;
  double temperature = 0.5;  // tau
  double beta = 1;           // of hard: weight on the negatives that are most alike
  double tau_plus = 0;       // of hard: share of negatives that are none
};

namespace ops {

// inputs s [M,M], whose diagonal is never read, and labels i64 [M]; outputs loss [1] and the
// auxiliary logsumexps of each anchor: [M,1] of all t, or [M,2] of (beta + 1) t_n and beta t_n
class Contrastive final : public OpOf<Contrastive> {
 public:
  explicit Contrastive(const ContrastiveOptions& options) : options(options) {}
  HG_DECLARE_DIFFERENTIABLE_OP("contrastive");
  Saved saved() const override { return {.in = {0, 1}, .out = {1}}; }
  Indices auxiliary_outputs() const override { return {1}; }

  const ContrastiveOptions options;
};

// inputs dy [1], s, labels, logsumexps; output ds [M,M]
class ContrastiveBackward final : public GradientOp<ContrastiveBackward> {
 public:
  explicit ContrastiveBackward(const ContrastiveOptions& options) : options(options) {}
  HG_DECLARE_OP("contrastive_backward");

  const ContrastiveOptions options;
};

}  // namespace ops

// z [M,D], rows of length 1; labels i64 [M]
Tensor contrastive_loss(const Tensor& z, const Tensor& labels, const ContrastiveOptions& options);

}  // namespace hg
