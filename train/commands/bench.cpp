// hgtrain bench: the time of one training step, or of one pass over test images, on random data of
// the configuration's shape.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tensor/base/columns.h"
#include "tensor/base/process.h"
#include "tensor/cpu/parallel.h"
#include "train/commands/commands.h"
#include "train/phases/measured_step.h"

namespace hg {
namespace {

std::unique_ptr<Measured> measured(const Config& config, const BenchOptions& options) {
  if (options.eval) return std::make_unique<MeasuredPass>(config);
  return std::make_unique<MeasuredStep>(config, options.phase);
}

}  // namespace

int bench_command(const BenchOptions& options) {
  const Config config = options.load();
  const std::unique_ptr<Measured> owned = measured(config, options);
  Measured& step = *owned;
  options.tell_device(config);
  const std::uint64_t flops = step.flops();
  step();  // warms up
  std::vector<double> times;
  for (std::int64_t s = 0; s < options.steps; ++s) times.push_back(step.timed_ms());
  std::sort(times.begin(), times.end());
  const std::int64_t batch = step.batch();
  const double best = times.front(), median = times[times.size() / 2];
  if (options.json) {
    nlohmann::ordered_json out{{"config", config.run.name},
                               {"phase", step.phase()},
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
    const std::string text = fmt::format(
        "{}: {}, batch {}, {} threads: {:.1f} ms a {} (median {:.1f}), {:.0f} images/s, {:.1f} "
        "GF/s, {:.0f} MB\n",
        config.run.name, step.phase(), batch, cpu::threads(), best, options.eval ? "pass" : "step",
        median, static_cast<double>(batch) / best * 1e3, static_cast<double>(flops) / best * 1e-6,
        static_cast<double>(peak_rss_bytes()) * 1e-6);
    print_folded(stdout, text);
  }
  return 0;
}

}  // namespace hg
