#include "tools/hgprof/overhead.h"

#include <algorithm>

#include "tensor/backend.h"

namespace hg::prof {
namespace {

constexpr int kPairs = 10;

double seconds_of(BenchStep& step) {
  Backend& clock = backend(Device::cpu);
  const std::int64_t start = clock.timestamp_ns();
  step();
  return static_cast<double>(clock.timestamp_ns() - start) * 1e-9;
}

double profiled(BenchStep& step, energy::Meter& meter, const energy::Calibration& calibration) {
  energy::SessionOptions options;
  options.calibration = calibration;
  energy::Session session(meter, options);
  const double seconds = seconds_of(step);
  session.stop();
  return seconds;
}

}  // namespace

Overhead measure_overhead(BenchStep& step, energy::Meter& meter,
                          const energy::Calibration& calibration) {
  std::vector<double> without, with;
  for (int pair = 0; pair < kPairs; ++pair) {
    if (pair % 2 == 0) without.push_back(seconds_of(step));
    with.push_back(profiled(step, meter, calibration));
    if (pair % 2 != 0) without.push_back(seconds_of(step));
  }
  return overhead_of(without, with);
}

// Of 10 sorted values, the 2nd and the 9th hold the median with 97.9 %: the nearest to 95 % from
// above; single steps that another program disturbed move neither.
Overhead overhead_of(const std::vector<double>& without, const std::vector<double>& with) {
  require(without.size() == with.size() && without.size() >= 4, "overhead", "{} and {} steps",
          without.size(), with.size());
  std::vector<double> percents;
  for (std::size_t i = 0; i < with.size(); ++i)
    percents.push_back(100 * (with[i] / without[i] - 1));
  std::sort(percents.begin(), percents.end());
  const std::size_t n = percents.size();
  return {static_cast<int>(n), (percents[(n - 1) / 2] + percents[n / 2]) / 2, percents[n / 10],
          percents[n - 1 - n / 10]};
}

}  // namespace hg::prof
