// The loss of a contrastive phase: which one, which rows of a batch belong together, what is drawn.
#pragma once

#include "data/loader.h"
#include "tensor/random.h"
#include "train/config/config.h"

namespace hg {

class ContrastiveLoss {
 public:
  // `use` tells its draws apart from others'.
  ContrastiveLoss(const sections::PhaseOptions& phase, std::string_view use);

  // What is the same in rows that belong together: the image they are views of, or the class.
  Tensor labels_of(const Batch& batch) const;
  // Embeddings [M,128] of length 1, of the batch's images -> [1].
  Tensor operator()(const Tensor& z, const Batch& batch) const;

 private:
  const sections::PhaseOptions phase_;
  const std::string stream_;  // of its draws
};

}  // namespace hg
