// What the emulated device counts: the host waits for it once in a training step, no more, and
// kernels for products are searched once.
#include <doctest/doctest.h>

#include "tensor/random.h"
#include "tensor/transfer.h"
#include "tests/cuda_emu/queue.h"
#include "train/step/class_step.h"
#include "train/step/flop_counter.h"
#include "train/step/optimizer.h"

namespace hg {
namespace {

nn::Vit tiny_model() {
  return nn::Vit({.channels = 1,
                  .img_size = 8,
                  .patch_size = 4,
                  .width = 8,
                  .depth = 1,
                  .heads = 2,
                  .dim_head = 4,
                  .classes = 3,
                  .dropout = 0.1,
                  .device = Device::cuda},
                 1);
}

std::uint64_t waits_of_step(const nn::Vit& model, Optimizer& optimizer) {
  RandomStream stream(1, "images");
  const Tensor images = Tensor::empty({2, 1, 8, 8});
  fill_normal(images, stream, 0, 1);
  const std::uint64_t before = emu::host_waits();
  Batch input;
  input.images = to_device(images, Device::cuda);
  input.labels = to_device(Tensor::of<std::int64_t>({2}, {0, 2}), Device::cuda);
  input.keep = to_device(Tensor::of<std::int64_t>({2, 3}, {0, 1, 3, 1, 2, 3}), Device::cuda);
  const Batchwise done =
      learn_classes({model, model.parameters().all(), input, plan_groups(model, input)}, {});
  CHECK(optimizer.step(done.gradients, 1e-3, done.ranges, done.loss));
  CHECK(done.loss > 0);
  return emu::host_waits() - before;
}

TEST_CASE("a training step waits for the device once") {
  const nn::Vit model = tiny_model();
  FlopCounter counter;  // what an op costs is known without looking at the device
  const ObserverGuard guard(counter);
  for (const double clip : {1.0, 0.0}) {
    TrainConfig train;
    train.grad_clip = clip;
    Optimizer optimizer(model.parameters().all(), train);
    for (int i = 0; i < 3; ++i) CHECK(waits_of_step(model, optimizer) == 1);
  }
}

TEST_CASE("kernels for the products of a step are searched in the first one") {
  const nn::Vit model = tiny_model();
  Optimizer optimizer(model.parameters().all(), TrainConfig{});
  waits_of_step(model, optimizer);
  const std::uint64_t before = emu::kernel_searches();
  CHECK(before > 0);
  waits_of_step(model, optimizer);
  CHECK(emu::kernel_searches() == before);
}

}  // namespace
}  // namespace hg
