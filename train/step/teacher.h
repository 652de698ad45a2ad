// The trained model that a run learns from beside its labels (loss.teacher; nn/METHODS.md, section
// 7). Its passes are part of the run's cost and energy; what training it has cost is not.
#pragma once

#include <memory>

#include "data/dataset.h"
#include "train/store/checkpoint.h"

namespace hg {

class Teacher {
 public:
  // Throws UsageError unless the configuration's loss.teacher is a run whose model takes the same
  // images, patches where training drops some, and tells the same number of classes.
  explicit Teacher(const Config& config);

  // As Vit::logits(), unrecorded and without dropout.
  Tensor logits(const Tensor& images, const Tensor& keep) const;
  // Throws UsageError unless it was trained on these classes and on pixels scaled like these.
  void require_knows(const Dataset& set) const;

 private:
  const std::string folder_;
  const LoadedModel loaded_;
};

// Without loss.teacher none, and its logits are undefined.
std::unique_ptr<const Teacher> teacher_of(const Config& config);
Tensor teacher_logits(const Teacher* teacher, const Tensor& images, const Tensor& keep);

}  // namespace hg
