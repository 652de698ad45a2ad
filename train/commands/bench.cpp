// hgtrain bench: the time of one training step, or of one pass over test images, on random data of
// the configuration's shape.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "tensor/base/columns.h"
#include "tensor/base/process.h"
#include "tensor/cpu/parallel.h"
#include "train/commands/commands.h"
#include "train/commands/measured_exchange.h"
#include "train/ranks/launcher.h"
#include "train/run/rank_checks.h"

namespace hg {
namespace {

std::unique_ptr<Measured> measured(const Config& config, const BenchOptions& options) {
  if (options.eval) return std::make_unique<MeasuredPass>(config);
  return std::make_unique<MeasuredStep>(config, options.phase);
}

// Of a step on the ranks of this launch; none: it is on one, or no step.
std::optional<StepForecast> forecast_here(const Config& config, const BenchOptions& options) {
  Ranks& all = ranks();
  if (all.alone() || options.eval) return std::nullopt;
  StepForecast forecast;
  if (all.first()) forecast = measure_alone(config, options.phase).on(all.size());
  all.any(false);  // the others wait for it
  return forecast;
}

void print(const Config& config, const BenchOptions& options, const Measured& step,
           std::uint64_t flops, const SharedSteps& taken,
           const std::optional<StepForecast>& forecast) {
  std::vector<double> times = taken.ms;
  std::sort(times.begin(), times.end());
  const std::int64_t batch = step.batch();
  const double best = times.front(), median = times[times.size() / 2];
  if (options.json) {
    nlohmann::ordered_json out{{"config", config.run.name},
                               {"phase", step.phase()},
                               {"batch_size", batch},
                               {"ranks", ranks().size()},
                               {"threads", cpu::threads()},
                               {"ms_per_step", best},
                               {"ms_median", median},
                               {"images_per_s", static_cast<double>(batch) / best * 1e3},
                               {"flops_per_step", flops},
                               {"gflops_per_s", static_cast<double>(flops) / best * 1e-6},
                               {"peak_rss_bytes", peak_rss_bytes()}};
    if (forecast) out["measured_together"] = json_of(taken, *forecast);
    fmt::print("{}\n", out.dump());
    return;
  }
  std::string text = fmt::format(
      "{}: {}, batch {}, {}{} threads: {:.1f} ms a {} (median {:.1f}), {:.0f} images/s, {:.1f} "
      "GF/s, {:.0f} MB\n",
      config.run.name, step.phase(), batch,
      ranks().alone() ? "" : fmt::format("{} ranks of ", ranks().size()), cpu::threads(), best,
      options.eval ? "pass" : "step", median, static_cast<double>(batch) / best * 1e3,
      static_cast<double>(flops) / best * 1e-6, static_cast<double>(peak_rss_bytes()) * 1e-6);
  if (forecast) text += text_of(taken, *forecast);
  print_folded(stdout, text);
}

int bench(const BenchOptions& options) {
  const Config config = options.load();
  check_ranks(config);
  link_gpus(config);
  ranks().set_timeout(std::numeric_limits<double>::infinity());
  const std::optional<StepForecast> forecast = forecast_here(config, options);
  const std::unique_ptr<Measured> step = measured(config, options);
  if (ranks().first()) options.tell_device(config);
  const std::uint64_t flops = ranks().sum(step->flops());
  (*step)();  // warms up
  const SharedSteps taken = take_steps(*step, options.steps);
  if (ranks().first()) print(config, options, *step, flops, taken, forecast);
  return 0;
}

}  // namespace

int bench_command(const BenchOptions& options) {
  return on_ranks([&] { return bench(options); });
}

}  // namespace hg
