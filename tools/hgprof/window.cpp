#include "tools/hgprof/window.h"

#include <time.h>

#include <algorithm>
#include <cmath>

#include "tensor/error.h"

namespace hg::prof {
namespace {

constexpr double kEnoughUj = 61'000;

}  // namespace

double cpu_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

Window measure(energy::Meter& meter, double seconds,
               const std::function<void(std::uint64_t calls)>& body) {
  const energy::Reading first = meter.read();
  const double cpu = cpu_seconds();
  Window w;
  std::uint64_t batch = 1;
  while (w.seconds < seconds || (w.total_uj() < kEnoughUj && w.seconds < 10 * seconds)) {
    body(batch);
    w.calls += batch;
    const energy::Reading now = meter.read();
    w.seconds = static_cast<double>(now.time_ns - first.time_ns) * 1e-9;
    for (std::size_t d = 0; d < energy::kDomains; ++d)
      if (now.domains[d])
        w.uj[d] = static_cast<double>((now.domains[d]->energy - first.domains[d]->energy).value);
    // About twenty reads a window.
    const double per_call = w.seconds / static_cast<double>(w.calls);
    batch = static_cast<std::uint64_t>(std::clamp(seconds / 20 / per_call, 1.0, 1e9));
  }
  w.cpu_seconds = cpu_seconds() - cpu;
  return w;
}

double median(std::vector<double> values) {
  require(!values.empty(), "median", "of no values");
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

double spread(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double middle = median(values);
  return middle > 0 ? (*high - *low) / middle : 0;
}

}  // namespace hg::prof
