// hgtrain bench: the time of one training step on random data of the configuration's shape.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tensor/backend.h"
#include "tensor/cpu/parallel.h"
#include "tensor/random.h"
#include "train/commands/commands.h"
#include "train/flop_counter.h"
#include "train/groups.h"
#include "train/model.h"
#include "train/optimizer.h"
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
  return input;
}

std::uint64_t flops_of_step(const nn::Vit& model, Optimizer& optimizer, const StepInput& input) {
  FlopCounter counter;
  const ObserverGuard guard(counter);
  optimizer.step(forward_backward(model, input).gradients, 0);
  return counter.flops();
}

}  // namespace

int bench_command(const BenchOptions& options) {
  const Config config = options.load();
  const nn::Vit model(vit_options(config), static_cast<std::uint64_t>(config.run.seed));
  Optimizer optimizer(model, config.phases[0].train);
  StepInput input = random_batch(config);
  Backend& clock = backend(Device::cpu);
  const std::uint64_t flops = flops_of_step(model, optimizer, input);
  std::vector<double> times;
  for (std::int64_t s = -1; s < options.steps; ++s) {  // the first one warms up
    const std::int64_t start = clock.timestamp_ns();
    ++input.step;
    optimizer.step(forward_backward(model, input).gradients, 1e-4);
    if (s >= 0) times.push_back(static_cast<double>(clock.timestamp_ns() - start) * 1e-6);
  }
  std::sort(times.begin(), times.end());
  const std::int64_t batch = input.labels.dim(0);
  const double best = times.front(), median = times[times.size() / 2];
  if (options.json) {
    nlohmann::ordered_json out{{"config", config.run.name},
                               {"batch_size", batch},
                               {"threads", cpu::threads()},
                               {"ms_per_step", best},
                               {"ms_median", median},
                               {"images_per_s", static_cast<double>(batch) / best * 1e3},
                               {"flops_per_step", flops},
                               {"gflops_per_s", static_cast<double>(flops) / best * 1e-6},
                               {"peak_rss_bytes", peak_rss_bytes()}};
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print(
        "{}: batch {}, {} threads: {:.1f} ms a step (median {:.1f}), {:.0f} images/s, {:.1f} "
        "GF/s, {:.0f} MB\n",
        config.run.name, batch, cpu::threads(), best, median,
        static_cast<double>(batch) / best * 1e3, static_cast<double>(flops) / best * 1e-6,
        static_cast<double>(peak_rss_bytes()) * 1e-6);
  }
  return 0;
}

}  // namespace hg
