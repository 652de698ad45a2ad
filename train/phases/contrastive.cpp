#include "train/phases/contrastive.h"

#include <algorithm>
#include <cmath>

#include "autograd/tape.h"
#include "tensor/base/usage_error.h"
#include "tensor/label_pairs.h"
#include "train/step/non_finite.h"

namespace hg {
namespace {

bool has_two_views(const PhaseConfig& phase) { return phase.views == PhaseConfig::Views::two_view; }

ClassBalance balance_of(const PhaseConfig& phase, std::size_t index, const RunData& data) {
  try {
    return balance_classes(*data.train, phase.train.batch_size, phase.classes_per_batch);
  } catch (const Error& e) {
    usage_fail(fmt::format("phase.{}.train.batch_size", index), "{}", e.what());
  }
}

// What is left over of an epoch is left out, so that all batches have as many negatives.
LoaderOptions training_batches(const PhaseSetting& s) {
  LoaderOptions options = s.loading(Split::train);
  if (!has_two_views(s.phase())) {
    options.balance = balance_of(s.phase(), s.index, s.data);
    return options;
  }
  options.views = 2;
  options.drop_last = options.batch_size <= s.data.train->size();
  return options;
}

// Of about the same size as in training, but without choosing: a data set may be short of a class.
LoaderOptions test_batches(const PhaseSetting& s) {
  LoaderOptions options = s.loading(Split::test);
  if (has_two_views(s.phase()))
    options.views = 2, options.augment = true;
  else
    options.batch_size = balance_of(s.phase(), s.index, s.data).batch();
  options.shuffle = true;  // some data sets come class by class
  options.drop_last = options.batch_size <= s.data.test->size();
  return options;
}

}  // namespace

void check_contrastive_data(const PhaseConfig& phase, std::size_t index, const RunData& data) {
  if (!has_two_views(phase)) balance_of(phase, index, data);
}

ContrastivePhase::ContrastivePhase(const PhaseSetting& s, const Safetensors* before, bool resumed)
    : GradientPhase(s, before, training_batches(s), test_batches(s)),
      projector_(model_.heads(), model_.options().width),
      train_loss_(s.phase(), s.seed(), "train"),
      test_loss_(s.phase(), s.seed(), "test") {
  take_up(s, before, resumed, frozen_with_head(s.phase()));
}

GroupPass ContrastivePhase::embeddings_of(const GroupPlan& plan, const Batch& batch) const {
  return [&](std::int64_t g, const nn::Context& context) {
    return projector_(
        model_.features(plan.part_of(batch.images, g), context, plan.part_of(batch.keep, g)));
  };
}

Batchwise ContrastivePhase::two_passes(const GroupStep& step, const Batch& batch) const {
  const GroupPass embeddings = embeddings_of(step.plan, batch);
  const Tensor z = forward_groups(step, embeddings);  // [M,128]
  Tape tape;
  tape.watch(z);
  const Tensor loss = train_loss_(z, train_loss_.labels_of(batch), step.step);
  const Tensor dz = tape.backward(loss)[z];
  std::vector<UpdateRanges> ranges = step.model.update_ranges(step.trained, false);
  const Figure value = Figure::of(loss);
  return {value, backward_groups(step, embeddings, dz), 0, std::move(ranges)};
}

Batchwise ContrastivePhase::learn_from(const Batch& batch) {
  return two_passes(group_step(batch, tokens_per_image(batch)), batch);
}

void ContrastivePhase::explain(const Batch& batch) {
  GroupStep step = group_step(batch, tokens_per_image(batch));
  step.plan.workers = 1;  // what comes first is to be named
  explain_non_finite(model_, [&] { two_passes(step, batch); });
}

std::optional<EpochReport> ContrastivePhase::finish_epoch(const std::function<bool()>& stop) {
  const PhaseScope phase(Phase::eval);
  EpochReport report;
  double total = 0;
  std::int64_t anchors = 0, index = 0;
  test_loader_.start_epoch(0);
  for (Batch batch; test_loader_.next(batch); ++index) {
    if (stop()) return std::nullopt;
    const GroupPlan plan = plan_groups(model_, batch.size(), tokens_per_image(batch));
    const GroupPass embeddings = embeddings_of(plan, batch);
    const Tensor labels = test_loss_.labels_of(batch);
    const auto loss_of = [&] {
      const Tensor z = joined_outputs(plan, [&](std::int64_t g) { return embeddings(g, {}); });
      return static_cast<double>(Figure::of(test_loss_(z, labels, index)));
    };
    const double loss = loss_of();
    if (!std::isfinite(loss)) explain_non_finite(model_, loss_of);
    const std::int64_t used = count_pairs(labels).anchors;
    total += loss * static_cast<double>(used);
    anchors += used;
    report.data_flops += batch.selection.flops;
  }
  if (anchors > 0) report.test_loss = total / static_cast<double>(anchors);
  report.note = trained_note();
  return report;
}

}  // namespace hg
