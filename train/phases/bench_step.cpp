#include "train/phases/bench_step.h"

#include <algorithm>

#include "tensor/backend.h"
#include "tensor/base/usage_error.h"
#include "tensor/random.h"
#include "tensor/transfer.h"
#include "train/config/selection.h"
#include "train/phases/prune.h"
#include "train/phases/supervised.h"
#include "train/step/flop_counter.h"

namespace hg {
namespace {

// A configuration that only prunes has a model to measure, too: as in supervised training.
const PhaseConfig& phase_to_measure(const Config& config) {
  const auto found = std::find_if(config.phases.begin(), config.phases.end(), learns_classes);
  if (found != config.phases.end()) return *found;
  for (const PhaseConfig& phase : config.phases)
    usage_require(phase.kind == "prune", "phase.kind",
                  "expected a phase that learns classes (supervised, finetune, detect), whose "
                  "steps can be measured, got \"{}\"; info counts steps of every kind",
                  phase.kind);
  return config.phases.front();
}

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
StepInput random_batch(const Config& config, const PhaseConfig& phase) {
  const ModelConfig& m = config.model;
  RandomStream stream(static_cast<std::uint64_t>(config.run.seed), "bench");
  StepInput input;
  const std::int64_t batch = phase.train.batch_size;
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
  if (phase.kind == "detect") {
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
    : phase_(phase_to_measure(config)),
      model_(options_to_measure(config), static_cast<std::uint64_t>(config.run.seed)),
      trained_(trained_parameters(model_.parameters(), supervised_options(config, phase_).freeze,
                                  "phase.freeze")),
      frozen_(frozen_parts(model_, trained_)),
      teacher_(teacher_of(config)),
      optimizer_(trained_, phase_.train),
      input_(on_device(random_batch(config, phase_), model_.parameters().device())) {
  input_.frozen = &frozen_;
  input_.teacher = teacher_.get();
}

void BenchStep::operator()() {
  constexpr double kLearningRate = 1e-4;
  ++input_.step;
  const Batchwise done = forward_backward(model_, trained_, input_);
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
