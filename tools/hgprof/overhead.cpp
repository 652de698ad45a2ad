#include "tools/hgprof/overhead.h"

#include <algorithm>

#include "energy/window.h"
#include "tensor/backend.h"

namespace hg::prof {
namespace {

constexpr int kPairs = 10;

struct StepTimes {
  std::vector<double> wall, cpu;

  void add(BenchStep& step) {
    Backend& clock = backend(Device::cpu);
    const std::int64_t start = clock.timestamp_ns();
    const double cpu_before = energy::cpu_seconds();
    step();
    cpu.push_back(energy::cpu_seconds() - cpu_before);
    wall.push_back(static_cast<double>(clock.timestamp_ns() - start) * 1e-9);
  }
};

}  // namespace

Overhead measure_overhead(BenchStep& step, energy::Meter& meter,
                          const energy::Calibration& calibration) {
  energy::SessionOptions options;
  options.calibration = calibration;
  StepTimes without, with;
  energy::Session session(meter, options);
  step();  // meets every op once
  session.pause();
  const auto profiled = [&] {
    session.resume();
    with.add(step);
    session.pause();
  };
  for (int pair = 0; pair < kPairs; ++pair) {
    if (pair % 2 == 0) without.add(step);
    profiled();
    if (pair % 2 != 0) without.add(step);
  }
  session.stop();
  return {kPairs, difference_of(without.wall, with.wall), difference_of(without.cpu, with.cpu)};
}

// Of 10 sorted values, the 2nd and the 9th hold the median with 97.9 %: the nearest to 95 % from
// above; single steps that another program disturbed move neither.
Difference difference_of(const std::vector<double>& without, const std::vector<double>& with) {
  require(without.size() == with.size() && without.size() >= 4, "overhead", "{} and {} steps",
          without.size(), with.size());
  std::vector<double> percents;
  for (std::size_t i = 0; i < with.size(); ++i)
    percents.push_back(100 * (with[i] / without[i] - 1));
  std::sort(percents.begin(), percents.end());
  const std::size_t n = percents.size();
  return {(percents[(n - 1) / 2] + percents[n / 2]) / 2, percents[n / 10],
          percents[n - 1 - n / 10]};
}

}  // namespace hg::prof
