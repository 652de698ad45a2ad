#include "train/bench_step.h"

#include "tensor/random.h"
#include "train/phases/prune.h"

namespace hg {
namespace {

StepInput random_batch(const Config& config) {
  const ModelConfig& m = config.model;
  RandomStream stream(static_cast<std::uint64_t>(config.run.seed), "bench");
  StepInput input;
  const std::int64_t batch = config.phases[0].train.batch_size;
  input.images = Tensor::empty({batch, m.in_channels, m.img_size, m.img_size});
  fill_normal(input.images, stream, 0, 1);
  input.labels = Tensor::empty({batch}, DType::i64);
  for (std::int64_t i = 0; i < batch; ++i)
    input.labels.data<std::int64_t>()[i] =
        static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(m.num_classes)));
  input.loss = config.loss;
  return input;
}

}  // namespace

BenchStep::BenchStep(const Config& config)
    : model_(options_to_measure(config), static_cast<std::uint64_t>(config.run.seed)),
      optimizer_(model_, config.phases[0].train),
      input_(random_batch(config)) {}

void BenchStep::operator()() {
  constexpr double kLearningRate = 1e-4;
  ++input_.step;
  optimizer_.step(forward_backward(model_, input_).gradients, kLearningRate);
}

}  // namespace hg
