#include "tools/hgprof/overhead.h"

#include <algorithm>
#include <cmath>

#include "tensor/base/clock.h"
#include "tensor/base/error.h"
#include "train/statistics/sample.h"

namespace hg::prof {
namespace {

constexpr int kPairs = 10;
constexpr int kMostSteps = 8;         // of one side of a pair
constexpr double kSideSeconds = 0.5;  // and the time they may take

struct StepTime {
  double wall = INFINITY, cpu = INFINITY;
};

StepTime time_step(MeasuredStep& step) {
  const std::int64_t start = now_ns();
  const double cpu_before = process_cpu_s();
  step();
  const double cpu = process_cpu_s() - cpu_before;
  return {seconds_since(start), cpu};
}

struct StepTimes {
  std::vector<double> wall, cpu;

  // The quickest of several steps: other programs only ever slow one down.
  void add(MeasuredStep& step, int steps) {
    StepTime best;
    for (int i = 0; i < steps; ++i) {
      const StepTime time = time_step(step);
      best = {std::min(best.wall, time.wall), std::min(best.cpu, time.cpu)};
    }
    wall.push_back(best.wall), cpu.push_back(best.cpu);
  }
};

}  // namespace

Overhead measure_overhead(MeasuredStep& step, energy::Meter& meter,
                          const energy::Calibration& calibration) {
  energy::SessionOptions options;
  options.calibration = calibration;
  StepTimes without, with;
  energy::Session session(meter, options);
  const double seconds = time_step(step).wall;  // meets every op once
  const int steps = std::clamp(static_cast<int>(kSideSeconds / seconds), 1, kMostSteps);
  fmt::print(stderr, "measuring what profiling costs: {} pairs of {} steps without and with it\n",
             kPairs, steps);
  session.pause();
  const auto profiled = [&] {
    session.resume();
    with.add(step, steps);
    session.pause();
  };
  for (int pair = 0; pair < kPairs; ++pair) {
    if (pair % 2 == 0) without.add(step, steps);
    profiled();
    if (pair % 2 != 0) without.add(step, steps);
  }
  session.stop();
  return {kPairs, difference_of(without.wall, with.wall), difference_of(without.cpu, with.cpu)};
}

Difference difference_of(const std::vector<double>& without, const std::vector<double>& with) {
  require(without.size() == with.size() && !with.empty(), "overhead", "{} and {} steps",
          without.size(), with.size());
  std::vector<double> percents;
  for (std::size_t i = 0; i < with.size(); ++i)
    percents.push_back(100 * (with[i] / without[i] - 1));
  const auto interval = statistics::median_interval(percents, 0.95);
  require(interval.has_value(), "overhead", "{} pairs of steps, expected 6 or more", with.size());
  const auto cost = [](double percent) { return std::max(0.0, percent); };
  return {cost(statistics::median(percents)), cost(interval->low), cost(interval->high)};
}

std::string text_of(const Difference& cost) {
  if (cost.low > 0)
    return fmt::format("{:.2f} % ({:.2f} to {:.2f})", cost.percent, cost.low, cost.high);
  return cost.high > 0 ? fmt::format("nothing that can be shown, at most {:.2f} %", cost.high)
                       : "nothing that can be shown";
}

}  // namespace hg::prof
