// Selective activation (METHODS.md, section 3): which heads of a layer work, and which tokens ask.
#pragma once

#include "nn/attention/heads.h"
#include "nn/layers/context.h"

namespace hg::nn {

// How many of n a share keeps; the small term keeps 0.07 of 100 at 7.
std::int64_t kept_of(double share, std::int64_t n);

// alpha_bh = sigmoid(w_h . mean of image b's tokens + b_h) multiplies what head h gives, and the
// heads of largest alpha are the only ones at work: the same for all images, by the running mean of
// alpha (buffer `gate.mean`), or of each image its own.
class HeadGate final : public Learner {
 public:
  struct Options {
    std::int64_t width = 0, heads = 1;
    double keep = 1;
    bool per_batch = true;
  };
  HeadGate(const Builder& attention, const Options& options);

  Tensor alpha(const Tensor& x, const Context& context) const;  // x [B, N, E] -> [B, H]
  // The heads at work: as learnt or, where nothing has been yet, by the mean of these alphas.
  HeadSet heads(const Tensor& alpha) const;
  // Whether heads() does not look at its images.
  bool settled() const;
  HeadSet settled_heads() const;
  // mixed [B, N, .. D], of these heads, times alpha.
  Tensor weigh(const Tensor& mixed, const Tensor& alpha, const HeadSet& heads) const;

  void learn(const CachedVector<Tensors>& passes) const override;

  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }

 private:
  HeadSet chosen_by(const Tensor& alphas) const;  // [B, H], or their mean [H]
  // 1 where the head is one of its image's largest, else 0.
  Tensor own_choice(const Tensor& alpha) const;

  Options options_;
  std::int64_t kept_;
  Tensor weight_, bias_, mean_;  // [H, E], [H], [H]: zeros until something is learnt
};

// The class token and the patches furthest from the mean of all tokens, as indices [B, 1 + share].
// Of equal ones the first.
Tensor asking_tokens(const Tensor& x, double share);

}  // namespace hg::nn
