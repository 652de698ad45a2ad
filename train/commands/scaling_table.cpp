#include "train/commands/scaling_table.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tensor/base/columns.h"
#include "tensor/base/text.h"
#include "train/run/rank_checks.h"

namespace hg {
namespace {

using Json = nlohmann::ordered_json;

void print_row(const StepNeeds& needs, const StepForecast& p) {
  const double weak = 100 * p.weak_efficiency;
  if (!p.possible) {
    fmt::print("{:>8} more ranks than images of a batch {:>58.1f}\n", p.ranks, weak);
    return;
  }
  fmt::print("{:>8} {:>11.3f} {:>12.3f} {:>11.0f} {:>12.1f} {:>22} {:>11.1f}\n", p.ranks,
             1e3 * p.step_s(), 1e3 * p.exchange_s, static_cast<double>(needs.images) / p.step_s(),
             100 * p.efficiency,
             with_prefix(p.joules_low, "J") + " to " + with_prefix(p.joules_high, "J"), weak);
}

Json row_of(const StepNeeds& needs, const StepForecast& p) {
  return {{"ranks", p.ranks},
          {"possible", p.possible},
          {"step_ms", 1e3 * p.step_s()},
          {"compute_ms", 1e3 * p.compute_s},
          {"exchange_ms", 1e3 * p.exchange_s},
          {"images_per_s", static_cast<double>(needs.images) / p.step_s()},
          {"efficiency", p.efficiency},
          {"weak_efficiency", p.weak_efficiency},
          {"joules_low", p.joules_low},
          {"joules_high", p.joules_high}};
}

}  // namespace

ScalingTable measure_scaling(const Config& config, const std::string& counts,
                             const std::string& network) {
  ScalingTable s;
  const std::vector<std::int64_t> wanted = rank_counts_of(counts);
  s.network = network_of(network);
  Ranks& all = ranks();
  check_ranks(config);
  link_gpus(config);
  all.set_timeout(std::numeric_limits<double>::infinity());  // the others wait for the first
  if (all.first()) {
    s.alone = measure_alone(config);
    for (const std::int64_t count : wanted) s.predicted.push_back(s.alone.on(count, s.network));
  }
  if (all.alone()) return s;
  constexpr double kMeasureS = 1, kFewest = 5;
  const double step_s = all.gather(s.alone.one.step_s)[0];
  MeasuredStep step(config);
  step();  // warms up
  s.together = take_steps(step, std::lround(std::max(kFewest, kMeasureS / step_s)));
  return s;
}

void print(const ScalingTable& s) {
  const auto& [phase, needs, one] = s.alone;
  fmt::print(
      "\n{}: a step of {} images in {} lanes, {} of gradients; measured here, {} threads: {:.2f} "
      "ms, {:.1f} GFLOP/s, {} {}\n",
      phase, needs.images, needs.lanes,
      with_prefix(sizeof(float) * static_cast<double>(needs.parameters), "B"), one.threads,
      1e3 * one.step_s, one.gflops_per_s, with_prefix(one.joules, "J"), one.energy_kind);
  fmt::print(
      "Predicted, with ranks like this machine and a network of {:g} GB/s and {:g} us:\n{:>8} "
      "{:>11} {:>12} {:>11} {:>12} {:>22} {:>11}\n",
      s.network.bytes_per_s * 1e-9, s.network.latency_s * 1e6, "ranks", "step ms", "exchange ms",
      "images/s", "efficiency %", "J a step", "weak %");
  for (const StepForecast& p : s.predicted) print_row(needs, p);
  fmt::print("Joules: waiting draws nothing, or as much as work. Weak: {} images for each rank.\n",
             needs.images);
  const std::string measured = s.together
                                   ? text_of(*s.together, s.alone.on(ranks().size(), s.network))
                                   : "Started by mpirun or srun, it also measures what its ranks "
                                     "take together.\n";
  print_folded(stdout, measured);
}

Json json_of(const ScalingTable& s) {
  const auto& [phase, needs, one] = s.alone;
  Json rows = Json::array();
  for (const StepForecast& p : s.predicted) rows.push_back(row_of(needs, p));
  Json json{
      {"phase", phase},
      {"images", needs.images},
      {"lanes", needs.lanes},
      {"trained_parameters", needs.parameters},
      {"measured",
       {{"threads", one.threads},
        {"step_ms", 1e3 * one.step_s},
        {"gflops_per_s", one.gflops_per_s},
        {"joules", one.joules},
        {"energy_kind", one.energy_kind}}},
      {"network",
       {{"gb_per_s", s.network.bytes_per_s * 1e-9}, {"latency_us", s.network.latency_s * 1e6}}},
      {"predicted", rows}};
  if (s.together)
    json["measured_together"] = json_of(*s.together, s.alone.on(ranks().size(), s.network));
  return json;
}

}  // namespace hg
