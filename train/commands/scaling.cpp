#include "train/commands/scaling.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "energy/meters/choice.h"
#include "energy/meters/window.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "tensor/cpu/parallel.h"
#include "train/phases/measured_step.h"
#include "train/ranks/ranks.h"

namespace hg {
namespace {

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
  const energy::MeterChoice choice =
      energy::open_meter(energy::MeterSetup::from_environment(step.device()));
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
// their own. Exchange: each rank sends (R - 1) / R of its gradients, and as much of the values or
// sums that it makes of the others'; and R - 1 messages a round.
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

MeasuredAlone measure_alone(const Config& config, std::optional<std::int64_t> phase) {
  Ranks alone(ranks(), 1);
  const RanksScope scope(alone);
  MeasuredStep step(config, phase);
  return {
      step.phase(), {step.batch(), step.lanes(), step.trained_parameters()}, measure_step(step)};
}

}  // namespace hg
