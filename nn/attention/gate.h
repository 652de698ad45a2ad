// Selective activation (nn/METHODS.md, section 3): which heads of a layer work, and which tokens
// have queries.
#pragma once

#include "nn/attention/heads.h"
#include "nn/layers/context.h"

namespace hg::nn {

// How many of n a share keeps, rounded up.
std::int64_t kept_of(double share, std::int64_t n);

// alpha_bh = sigmoid(w_h . mean of image b's tokens + b_h) multiplies the output of head h, and
// only the heads with the largest alpha work: the same for all images, by the running mean of alpha
// (buffer `gate.mean`), or each image's own.
class HeadGate final : public Learner {
 public:
  struct Options {
    std::int64_t width = 0, heads = 1;
    double keep = 1;
    bool per_batch = true;
  };
  HeadGate(const Builder& attention, const Options& options);

  Tensor alpha(const Tensor& x, const Context& context) const;  // x [B, N, E] -> [B, H]
  // The heads that work, by the running mean; as long as there is none, by the mean of these
  // alphas.
  HeadSet heads(const Tensor& alpha) const;
  // Whether heads() ignores its alphas.
  bool settled() const;
  HeadSet settled_heads() const;
  // mixed [B, N, H' D], of these H' heads, times alpha.
  Tensor weigh(const Tensor& mixed, const Tensor& alpha, const HeadSet& heads) const;

  void learn(const CachedVector<Tensors>& passes) const override;

  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }

 private:
  HeadSet chosen_by(const Tensor& alphas) const;  // [B, H], or their mean [H]
  // 1 where the head is among the largest of its image, else 0.
  Tensor own_choice(const Tensor& alpha) const;

  Options options_;
  std::int64_t kept_;
  Tensor weight_, bias_, mean_;  // [H, E], [H], [H]; the mean is 0 until it has learnt
};

// Indices [B, 1 + kept] of the class token and of that share of the patches which is furthest from
// the mean of all tokens; of equal ones the first.
Tensor asking_tokens(const Tensor& x, double share);

}  // namespace hg::nn
