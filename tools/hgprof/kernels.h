// Kernels that load arithmetic, caches or memory, or do nothing, and their measurement by the
// meter: what hgprof calibrate fits an energy profile to.
#pragma once

#include <functional>

#include "energy/books/fit.h"
#include "energy/meters/window.h"
#include "tensor/tensor.h"

namespace hg::prof {

// Totals of one kernel over all its trials.
struct Measured {
  std::string name;
  int threads = 0;  // 0: it did nothing
  Cost cost;        // of one call
  energy::Window sum;

  double seconds_per_call() const { return sum.seconds / static_cast<double>(sum.calls); }
  // On the CPU; a domain of the GPU knows a busy GPU instead of threads.
  energy::BenchPoint point(std::size_t domain) const;
};

// Idle, then each kernel on one thread and on all.
std::vector<Measured> measure_cpu(energy::Meter& meter, double seconds);
// Idle, then each kernel with so many times as many rows as suit a thread.
std::vector<Measured> measure_gpu(energy::Meter& meter, double seconds, std::int64_t enlarge);

// How long products, elementwise work and bytes take: of the CPU by one thread.
energy::PartTimes part_times(const std::vector<Measured>& all);

}  // namespace hg::prof
