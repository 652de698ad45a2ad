#include "train/step/class_step.h"

#include "train/step/loss.h"

namespace hg {
namespace {

Tensor features_of(const GroupStep& step, const ClassTask& task, const Batch& part,
                   const nn::Context& context) {
  if (!step.frozen || !step.frozen->front)
    return step.model.features(part.images, context, part.keep);
  const std::int64_t blocks = *step.frozen->front;
  const Tensor front =
      task.front ? task.front(part) : front_output(step.model, blocks, part.images, part.keep);
  return features_behind(step.model, blocks, front, context, part.keep);
}

}  // namespace

Batchwise learn_classes(GroupStep step, const ClassTask& task) {
  step.record = record_for(task.loss);
  const std::int64_t boxes = task.boxes ? count_boxes(step.batch.has_box) : 0;
  return forward_backward(step, [&](const Batch& part, const nn::Context& context) {
    const Tensor features = features_of(step, task, part, context);
    const Targets targets{part.labels, teacher_logits(task.teacher, part.images, part.keep)};
    const Tensor loss = training_loss(step.model.classify(features), targets, *context.record,
                                      task.loss, step.batch.size());
    if (!task.boxes) return loss;
    return with_box_loss(loss, step.model.boxes(features), part.boxes, part.has_box, boxes);
  });
}

}  // namespace hg
