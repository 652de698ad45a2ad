// The step of detection: its loss in groups is that of the whole batch, and it learns.
#include <doctest/doctest.h>

#include "autograd/tape.h"
#include "data/loader.h"
#include "data/shapes.h"
#include "tensor/cpu/parallel.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/box_loss.h"
#include "tensor/ops/cross_entropy.h"
#include "train/eval/evaluate.h"
#include "train/step/class_step.h"
#include "train/step/optimizer.h"

namespace {

using namespace hg;

constexpr int kSize = 16;
constexpr std::int64_t kImages = 24, kClasses = 3;

nn::Vit detector() {
  return nn::Vit({.img_size = kSize,
                  .patch_size = 4,
                  .width = 32,
                  .depth = 2,
                  .heads = 2,
                  .dim_head = 16,
                  .classes = kClasses,
                  .box_head = true},
                 3);
}

std::unique_ptr<Dataset> shapes() {
  return make_shapes({.classes = kClasses, .img_size = kSize, .count = kImages});
}

LoaderOptions whole_batches() {
  LoaderOptions options;
  options.batch_size = kImages;
  options.lanes = 5;
  options.img_size = kSize;
  options.in_channels = 3;
  return options;
}

Batch input_of(const Dataset& data) {
  Loader loader(data, whole_batches());
  loader.start_epoch(0);
  Batch batch;
  REQUIRE(loader.next(batch));
  return batch;
}

Batchwise step_on(const nn::Vit& model, const Batch& batch, bool boxes = true) {
  return learn_classes({model, model.parameters().all(), batch, plan_groups(model, batch)},
                       {.boxes = boxes});
}

Tensor summed(const Batchwise& step, std::size_t parameter) {
  Tensor sum = step.gradients[0][parameter];
  for (std::size_t half = 1; half < step.gradients.size(); ++half)
    sum = add(sum, step.gradients[half][parameter]);
  return sum;
}

}  // namespace

TEST_CASE("detection in groups has the loss and gradients of the whole batch") {
  const auto data = shapes();
  const Batch input = input_of(*data);
  // Boxes are missing unevenly over the groups.
  for (const std::int64_t i : {0, 1, 2, 3, 4, 20}) input.has_box.data<std::int64_t>()[i] = 0;
  const nn::Vit model = detector();
  const auto& all = model.parameters().all();
  Tape tape;
  for (const nn::Parameter& p : all) tape.watch(p.value);
  const Tensor features = model.features(input.input(), {});
  const Tensor loss = add(cross_entropy(model.classify(features), input.labels),
                          box_loss(model.boxes(features), input.boxes, input.has_box).loss);
  const Gradients expected = tape.backward(loss);
  for (const int threads : {1, 2}) {
    cpu::set_threads(threads);
    const Batchwise step = step_on(model, input);
    CHECK(step.loss == doctest::Approx(loss.item<float>()).epsilon(1e-5));
    for (std::size_t i = 0; i < all.size(); ++i) {
      INFO(all[i].name);
      const auto a = summed(step, i).to_vector<float>(),
                 b = expected[all[i].value].to_vector<float>();
      for (std::size_t j = 0; j < a.size(); ++j)
        CHECK(a[j] == doctest::Approx(b[j]).epsilon(1e-3).scale(0.01));
    }
  }
}

TEST_CASE("a batch without any box teaches classes alone") {
  const auto data = shapes();
  Batch input = input_of(*data);
  input.has_box = Tensor::zeros({kImages}, DType::i64);
  const nn::Vit model = detector();
  const auto& all = model.parameters().all();
  const Batchwise step = step_on(model, input);
  const Batchwise classes = step_on(model, input, false);
  CHECK(step.loss == classes.loss);
  REQUIRE(all.back().name == "box_head.bias");
  for (const float g : summed(step, all.size() - 1).to_vector<float>()) CHECK(g == 0);
  CHECK(!classes.gradients[0].back().defined());
}

TEST_CASE("a detector learns a few images by heart, classes and boxes") {
  cpu::set_threads(2);
  const auto data = shapes();
  Batch input = input_of(*data);
  const nn::Vit model = detector();
  const auto& all = model.parameters().all();
  TrainConfig train;
  train.weight_decay = 0;
  Optimizer optimizer(all, train);
  Loader loader(*data, whole_batches());
  const DetectionMetrics before = *evaluate(model, loader, Judged::boxes)->detection;
  for (; optimizer.steps() < 300; input.step = optimizer.steps())
    optimizer.step(step_on(model, input).gradients, 3e-3);
  const Evaluation after = *evaluate(model, loader, Judged::boxes);
  CHECK(before.mean_iou < 0.6);
  CHECK(after.detection->mean_iou > 0.85);
  CHECK(after.detection->micro_f1 > 0.95);
  CHECK(after.detection->map_50 > 0.95);
  CHECK(after.metrics.accuracy > 0.95);
  CHECK(after.loss < 0.6);
  CHECK(!evaluate(model, loader, Judged::classes)->detection);
}
