// The step that teaches classes and, if asked to, boxes: a batch's loss and its gradients.
#pragma once

#include "train/config/config.h"
#include "train/step/groups.h"
#include "train/step/teacher.h"

namespace hg {

struct ClassTask {
  LossConfig loss{};
  bool boxes = false;                // to be found, too
  const Teacher* teacher = nullptr;  // of [loss]; none: there is none
  PartPass front{};                  // output of what is frozen in front; none: it is computed
};

Batchwise learn_classes(GroupStep step, const ClassTask& task);

}  // namespace hg
