// The loss of a contrastive phase: which one, which rows of a batch belong together, what is drawn.
#pragma once

#include "data/loader.h"
#include "tensor/random.h"
#include "train/config/config.h"

namespace hg {

class ContrastiveLoss {
 public:
  // `seed` of the draws, `use` tells them apart from others'.
  ContrastiveLoss(const sections::PhaseOptions& phase, std::uint64_t seed, std::string_view use);

  // What is the same in rows that belong together: the image they are views of, or the class.
  Tensor labels_of(const Batch& batch) const;
  // Embeddings [M,128] of length 1 -> [1]. Draws are those of `step`.
  Tensor operator()(const Tensor& z, const Tensor& labels, std::int64_t step) const;

 private:
  const sections::PhaseOptions phase_;
  const RandomStream negatives_;
};

}  // namespace hg
