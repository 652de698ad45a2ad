#include "train/step/supervised_step.h"

#include "train/step/loss.h"

namespace hg {
namespace {

GroupStep step_of(const nn::Vit& model, const std::vector<nn::Parameter>& trained,
                  const StepInput& input) {
  return {model,
          trained,
          plan_groups(model, input.labels.dim(0), tokens_of(model, input.keep)),
          input.seed,
          input.step,
          record_for(input.loss),
          input.frozen};
}

Tensor features_of(const GroupStep& step, const StepInput& input, std::int64_t g,
                   const nn::Context& context) {
  const Tensor images = step.plan.part_of(input.images, g), keep = step.plan.part_of(input.keep, g);
  if (!input.frozen || !input.frozen->front) return step.model.features(images, context, keep);
  const std::int64_t blocks = *input.frozen->front;
  const Tensor front =
      input.front ? input.front(step.plan, g) : front_output(step.model, blocks, images, keep);
  return features_behind(step.model, blocks, front, context, keep);
}

Targets targets_of(const GroupPlan& plan, const StepInput& input, std::int64_t g) {
  return {
      plan.part_of(input.labels, g),
      teacher_logits(input.teacher, plan.part_of(input.images, g), plan.part_of(input.keep, g))};
}

GroupPass loss_of(const GroupStep& step, const StepInput& input) {
  const std::int64_t boxes = input.boxes.defined() ? count_boxes(input.has_box) : 0;
  return [&step, &input, boxes](std::int64_t g, const nn::Context& context) {
    const GroupPlan& plan = step.plan;
    const Tensor features = features_of(step, input, g, context);
    const Tensor loss = training_loss(step.model.classify(features), targets_of(plan, input, g),
                                      *context.record, input.loss, plan.batch);
    if (!input.boxes.defined()) return loss;
    return with_box_loss(loss, step.model.boxes(features), plan.part_of(input.boxes, g),
                         plan.part_of(input.has_box, g), boxes);
  };
}

}  // namespace

Batchwise forward_backward(const nn::Vit& model, const std::vector<nn::Parameter>& trained,
                           const StepInput& input) {
  const GroupStep step = step_of(model, trained, input);
  return forward_backward(step, loss_of(step, input));
}

void explain_non_finite_step(const nn::Vit& model, const std::vector<nn::Parameter>& trained,
                             const StepInput& input) {
  const GroupStep step = step_of(model, trained, input);
  explain_non_finite_step(step, loss_of(step, input));
}

}  // namespace hg
