// Measures work by repeating it until the meter has seen enough.
#pragma once

#include <functional>

#include "energy/meters/meter.h"

namespace hg::energy {

struct Window {
  std::uint64_t calls = 0;
  double seconds = 0, cpu_seconds = 0;  // wall; of all threads of this process
  std::array<double, kDomains> uj{};

  double total_uj() const { return uj[0] + uj[1] + uj[2]; }
};

// Runs body(calls) for at least `seconds`, and longer (up to ten times that) until the meter has
// counted a thousand of RAPL's units, and until a counter that moves too seldom for so short a
// window has moved ten times. body() returns when the work is done.
Window measure(Meter& meter, double seconds, const std::function<void(std::uint64_t calls)>& body);

// What the machine draws while this process sleeps, over ten moves of each counter (2.5 s at most).
// None without a meter that measures: a model would only repeat its own assumption.
std::optional<Watts> idle_power(Meter& meter);

}  // namespace hg::energy
