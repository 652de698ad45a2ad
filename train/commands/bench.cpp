// hgtrain bench: the time of one training step on random data of the configuration's shape.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tensor/backend.h"
#include "tensor/cpu/parallel.h"
#include "train/bench_step.h"
#include "train/commands/commands.h"
#include "train/flop_counter.h"

namespace hg {
namespace {

std::uint64_t flops_of(BenchStep& step) {
  FlopCounter counter;
  const ObserverGuard guard(counter);
  step();
  return counter.flops();
}

}  // namespace

int bench_command(const BenchOptions& options) {
  const Config config = options.load();
  BenchStep step(config);
  Backend& clock = backend(Device::cpu);
  const std::uint64_t flops = flops_of(step);
  std::vector<double> times;
  for (std::int64_t s = -1; s < options.steps; ++s) {  // the first one warms up
    const std::int64_t start = clock.timestamp_ns();
    step();
    if (s >= 0) times.push_back(static_cast<double>(clock.timestamp_ns() - start) * 1e-6);
  }
  std::sort(times.begin(), times.end());
  const std::int64_t batch = step.batch();
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
