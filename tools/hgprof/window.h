// Work repeated until the meter has seen enough of it.
#pragma once

#include <functional>

#include "energy/meter.h"

namespace hg::prof {

struct Window {
  std::uint64_t calls = 0;
  double seconds = 0, cpu_seconds = 0;  // wall; of all threads of this process
  std::array<double, energy::kDomains> uj{};

  double total_uj() const { return uj[0] + uj[1] + uj[2]; }
};

// Runs body(calls) at least `seconds` long, and on, up to ten times that, until the meter has
// counted a thousand of RAPL's units.
Window measure(energy::Meter& meter, double seconds,
               const std::function<void(std::uint64_t calls)>& body);

double cpu_seconds();  // of all threads of this process

double median(std::vector<double> values);
// Largest minus smallest, relative to the median.
double spread(const std::vector<double>& values);

}  // namespace hg::prof
