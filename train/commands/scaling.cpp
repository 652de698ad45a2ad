#include "train/commands/scaling.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "energy/meters/choice.h"
#include "energy/meters/window.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "tensor/cpu/parallel.h"
#include "train/phases/measured_step.h"

namespace hg {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMeasureS = 1;
// Small rounds of a step: sizes and figures of groups, what is told at its end; and the two of the
// exchange.
constexpr double kRounds = 5;

std::vector<double> numbers_in(const std::string& text, const char* option, const char* expected) {
  std::vector<double> numbers;
  for (const char *at = text.data(), *end = at + text.size();; ++at) {
    double number = 0;
    const auto [stop, error] = std::from_chars(at, end, number);
    usage_require(error == std::errc() && (stop == end || *stop == ','), option,
                  "expected {}, got {}", expected, printable(text));
    numbers.push_back(number);
    if (stop == end) return numbers;
    at = stop;
  }
}

MeasuredRank measure_step(MeasuredStep& step) {
  const energy::MeterChoice choice = energy::open_meter();
  step();  // warms up
  const double flops = static_cast<double>(step.flops());
  const energy::Window w = energy::measure(*choice.meter, kMeasureS, [&](std::uint64_t calls) {
    for (std::uint64_t i = 0; i < calls; ++i) step();
  });
  const auto calls = static_cast<double>(w.calls);
  const double step_s = w.seconds / calls;
  return {step_s, w.total_uj() * 1e-6 / calls, flops / step_s * 1e-9,
          std::string(energy::to_string(choice.meter->kind())), cpu::threads()};
}

struct Scaled {
  std::string phase;
  StepNeeds needs;
  MeasuredRank one;
  Network network;
  std::vector<StepForecast> rows;
};

Scaled scale_up(const Config& config, const std::string& ranks, const std::string& network) {
  const std::vector<std::int64_t> counts = rank_counts_of(ranks);
  Scaled s;
  s.network = network_of(network);
  MeasuredStep step(config);
  s.phase = step.phase();
  s.needs = {step.batch(), step.lanes(), step.trained_parameters()};
  s.one = measure_step(step);
  for (const std::int64_t count : counts)
    s.rows.push_back(predict_step(s.needs, s.one, s.network, count));
  return s;
}

}  // namespace

Network network_of(const std::string& text) {
  constexpr const char* kExpected = "GB/s and microseconds, such as 10,2";
  if (text.empty()) return {};
  const std::vector<double> n = numbers_in(text, "--network", kExpected);
  usage_require(n.size() == 2 && n[0] > 0 && n[1] >= 0 && n[0] < 1e9 && n[1] < 1e9, "--network",
                "expected {}, got {}", kExpected, printable(text));
  return {n[0] * 1e9, n[1] * 1e-6};
}

std::vector<std::int64_t> rank_counts_of(const std::string& text) {
  constexpr const char* kExpected = "numbers of ranks from 1 to 1000000, such as 1,8,64";
  std::vector<std::int64_t> counts;
  for (const double n : numbers_in(text, "--ranks", kExpected)) {
    usage_require(n >= 1 && n <= 1e6 && n == std::floor(n), "--ranks", "expected {}, got {}",
                  kExpected, printable(text));
    counts.push_back(static_cast<std::int64_t>(n));
  }
  return counts;
}

// Compute: the lanes of the rank that has most of them; more ranks than lanes are given lanes of
// their own. Exchange: each rank sends (R - 1) / R of its gradients twice, and R - 1 messages a
// round.
StepForecast predict_step(const StepNeeds& needs, const MeasuredRank& one, const Network& network,
                          std::int64_t ranks) {
  StepForecast p;
  p.ranks = ranks;
  p.possible = ranks <= needs.images;
  const double others = static_cast<double>(ranks - 1), all = static_cast<double>(ranks);
  const std::int64_t lanes = std::max(needs.lanes, ranks), most = (lanes + ranks - 1) / ranks;
  p.compute_s = one.step_s * static_cast<double>(most) / static_cast<double>(lanes);
  const double bytes = sizeof(float) * static_cast<double>(needs.parameters);
  p.exchange_s =
      2 * others / all * bytes / network.bytes_per_s + kRounds * others * network.latency_s;
  const double watts = one.joules / one.step_s;
  p.joules_low = all * watts * p.compute_s;
  p.joules_high = all * watts * p.step_s();
  p.efficiency = one.step_s / (all * p.step_s());
  p.weak_efficiency = one.step_s / (one.step_s + p.exchange_s);
  return p;
}

void print_scaling(const Config& config, const std::string& ranks, const std::string& network) {
  const Scaled s = scale_up(config, ranks, network);
  fmt::print(
      "\n{}: a step of {} images in {} lanes, {} of gradients; measured here, {} threads: {:.2f} "
      "ms, "
      "{:.1f} GFLOP/s, {} {}\n",
      s.phase, s.needs.images, s.needs.lanes,
      with_prefix(sizeof(float) * static_cast<double>(s.needs.parameters), "B"), s.one.threads,
      1e3 * s.one.step_s, s.one.gflops_per_s, with_prefix(s.one.joules, "J"), s.one.energy_kind);
  fmt::print(
      "Predicted, with ranks like this machine and a network of {:g} GB/s and {:g} us:\n{:>8} "
      "{:>11} "
      "{:>12} {:>11} {:>12} {:>22} {:>11}\n",
      s.network.bytes_per_s * 1e-9, s.network.latency_s * 1e6, "ranks", "step ms", "exchange ms",
      "images/s", "efficiency %", "J a step", "weak %");
  for (const StepForecast& p : s.rows) {
    const double weak = 100 * p.weak_efficiency;
    if (!p.possible) {
      fmt::print("{:>8} more ranks than images of a batch {:>58.1f}\n", p.ranks, weak);
      continue;
    }
    fmt::print("{:>8} {:>11.3f} {:>12.3f} {:>11.0f} {:>12.1f} {:>22} {:>11.1f}\n", p.ranks,
               1e3 * p.step_s(), 1e3 * p.exchange_s,
               static_cast<double>(s.needs.images) / p.step_s(), 100 * p.efficiency,
               with_prefix(p.joules_low, "J") + " to " + with_prefix(p.joules_high, "J"), weak);
  }
  fmt::print("Joules: waiting draws nothing, or as much as work. Weak: {} images for each rank.\n",
             s.needs.images);
}

Json scaling_json(const Config& config, const std::string& ranks, const std::string& network) {
  const Scaled s = scale_up(config, ranks, network);
  Json rows = Json::array();
  for (const StepForecast& p : s.rows)
    rows.push_back({{"ranks", p.ranks},
                    {"possible", p.possible},
                    {"step_ms", 1e3 * p.step_s()},
                    {"compute_ms", 1e3 * p.compute_s},
                    {"exchange_ms", 1e3 * p.exchange_s},
                    {"images_per_s", static_cast<double>(s.needs.images) / p.step_s()},
                    {"efficiency", p.efficiency},
                    {"weak_efficiency", p.weak_efficiency},
                    {"joules_low", p.joules_low},
                    {"joules_high", p.joules_high}});
  return {{"phase", s.phase},
          {"images", s.needs.images},
          {"lanes", s.needs.lanes},
          {"trained_parameters", s.needs.parameters},
          {"measured",
           {{"threads", s.one.threads},
            {"step_ms", 1e3 * s.one.step_s},
            {"gflops_per_s", s.one.gflops_per_s},
            {"joules", s.one.joules},
            {"energy_kind", s.one.energy_kind}}},
          {"network",
           {{"gb_per_s", s.network.bytes_per_s * 1e-9}, {"latency_us", s.network.latency_s * 1e6}}},
          {"predicted", rows}};
}

}  // namespace hg
