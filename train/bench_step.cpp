#include "train/bench_step.h"

#include "tensor/backend.h"
#include "tensor/random.h"
#include "tensor/transfer.h"
#include "train/flop_counter.h"
#include "train/phases/prune.h"
#include "train/selection.h"

namespace hg {
namespace {

Tensor random_choice(const Config& config, std::int64_t batch, std::int64_t kept) {
  const std::vector<double> equal(static_cast<std::size_t>(patches_of(config.model)), 1.0);
  const Tensor keep = Tensor::empty({batch, kept}, DType::i64);
  const std::uint64_t key = selection_key(static_cast<std::uint64_t>(config.run.seed), 0);
  PatchChooser chooser;
  for (std::int64_t i = 0; i < batch; ++i)
    chooser.draw(equal, key, static_cast<std::uint64_t>(i),
                 {keep.data<std::int64_t>() + i * kept, static_cast<std::size_t>(kept)});
  return keep;
}

// With patches that are dropped, a step that drops them.
StepInput random_batch(const Config& config) {
  const ModelConfig& m = config.model;
  RandomStream stream(static_cast<std::uint64_t>(config.run.seed), "bench");
  StepInput input;
  const std::int64_t batch = config.phases[0].train.batch_size;
  Shape shape{batch, m.in_channels, m.img_size, m.img_size};
  if (const auto kept = dropped_to(config)) {  // as the loader hands them over
    input.keep = random_choice(config, batch, *kept);
    shape = {batch, *kept, m.in_channels * m.patch_size * m.patch_size};
  }
  input.images = Tensor::empty(shape);
  fill_normal(input.images, stream, 0, 1);
  input.labels = Tensor::empty({batch}, DType::i64);
  for (std::int64_t i = 0; i < batch; ++i)
    input.labels.data<std::int64_t>()[i] =
        static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(m.num_classes)));
  input.loss = config.loss;
  if (detects(config)) {
    input.boxes = Tensor::empty({batch, 4});
    fill_uniform(input.boxes, stream, 0.2f, 0.8f);
    input.has_box = Tensor::full({batch}, 1, DType::i64);
  }
  return input;
}

StepInput on_device(StepInput input, Device device) {
  for (Tensor* t : {&input.images, &input.labels, &input.keep, &input.boxes, &input.has_box})
    *t = to_device(*t, device);
  return input;
}

}  // namespace

BenchStep::BenchStep(const Config& config)
    : model_(options_to_measure(config), static_cast<std::uint64_t>(config.run.seed)),
      optimizer_(model_.parameters().all(), config.phases[0].train),
      input_(on_device(random_batch(config), model_.parameters().device())) {}

void BenchStep::operator()() {
  constexpr double kLearningRate = 1e-4;
  ++input_.step;
  const Batchwise done = forward_backward(model_, model_.parameters().all(), input_);
  optimizer_.step(done.gradients, kLearningRate, done.ranges);
  backend(model_.parameters().device()).synchronize();
}

double BenchStep::timed_ms() {
  Backend& clock = backend(Device::cpu);
  const std::int64_t start = clock.timestamp_ns();
  (*this)();
  return static_cast<double>(clock.timestamp_ns() - start) * 1e-6;
}

std::uint64_t BenchStep::flops() {
  FlopCounter counter;
  const ObserverGuard guard(counter);
  (*this)();
  return counter.flops();
}

}  // namespace hg
