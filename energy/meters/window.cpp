#include "energy/meters/window.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "tensor/base/clock.h"

namespace hg::energy {
namespace {

constexpr double kEnoughUj = 61'000;

}  // namespace

Window measure(Meter& meter, double seconds, const std::function<void(std::uint64_t calls)>& body) {
  const Reading first = meter.read();
  const double cpu = process_cpu_s();
  Window w;
  std::uint64_t batch = 1;
  while (w.seconds < seconds || (w.total_uj() < kEnoughUj && w.seconds < 10 * seconds)) {
    body(batch);
    w.calls += batch;
    const Reading now = meter.read();
    w.seconds = seconds_between(first.time_ns, now.time_ns);
    for (std::size_t d = 0; d < kDomains; ++d)
      if (now.domains[d])
        w.uj[d] = static_cast<double>((now.domains[d]->energy - first.domains[d]->energy).value);
    // About twenty reads a window.
    const double per_call = w.seconds / static_cast<double>(w.calls);
    batch = static_cast<std::uint64_t>(std::clamp(seconds / 20 / per_call, 1.0, 1e9));
  }
  w.cpu_seconds = process_cpu_s() - cpu;
  return w;
}

std::optional<Watts> idle_power(Meter& meter) {
  constexpr double kSeconds = 0.05;
  if (meter.kind() != Kind::measured) return std::nullopt;
  const Window w = measure(meter, kSeconds, [](std::uint64_t naps) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * naps));
  });
  return Watts{w.total_uj() * 1e-6 / w.seconds};
}

}  // namespace hg::energy
