#include "train/supervised_step.h"

#include "train/loss.h"

namespace hg {
namespace {

GroupStep step_of(const nn::Vit& model, const std::vector<nn::Parameter>& trained,
                  const StepInput& input) {
  return {
      model,      trained,    plan_groups(model, input.labels.dim(0), tokens_of(model, input.keep)),
      input.seed, input.step, record_for(input.loss)};
}

GroupPass loss_of(const GroupStep& step, const StepInput& input) {
  const std::int64_t boxes = input.boxes.defined() ? count_boxes(input.has_box) : 0;
  return [&step, &input, boxes](std::int64_t g, const nn::Context& context) {
    const GroupPlan& plan = step.plan;
    const Tensor features =
        step.model.features(plan.part_of(input.images, g), context, plan.part_of(input.keep, g));
    const Tensor loss = training_loss(step.model.classify(features), plan.part_of(input.labels, g),
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
