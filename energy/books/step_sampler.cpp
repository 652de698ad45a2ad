#include "energy/books/step_sampler.h"

#include <algorithm>
#include <cmath>

namespace hg::energy {
namespace {

double median_ns(std::vector<double>& ns) {
  const auto middle = ns.begin() + static_cast<std::ptrdiff_t>(ns.size() / 2);
  std::nth_element(ns.begin(), middle, ns.end());
  return *middle;
}

}  // namespace

bool StepSampler::begin(Phase phase, std::int64_t now_ns) {
  if (every_ == 0 && began_ns_ > 0) note_duration(phase, now_ns);
  phase_ = phase;
  began_ns_ = now_ns;
  const std::uint64_t step = steps_[static_cast<std::size_t>(phase)]++;
  if (every_ > 0)
    timed_ = step % static_cast<std::uint64_t>(every_) == 0;
  else
    timed_ = step < kWarmUp || step % 2 == 0;
  return timed_;
}

// A step that another phase follows did more than train: it is not counted.
void StepSampler::note_duration(Phase next, std::int64_t now_ns) {
  if (phase_ != Phase::forward || next != phase_) return;
  if (steps_[static_cast<std::size_t>(phase_)] <= kWarmUp) return;
  (timed_ ? timed_ns_ : plain_ns_).push_back(static_cast<double>(now_ns - began_ns_));
  if (std::min(timed_ns_.size(), plain_ns_.size()) >= kTurns) decide();
}

void StepSampler::decide() {
  const double plain = median_ns(plain_ns_);
  cost_ = plain > 0 ? std::max(0.0, median_ns(timed_ns_) / plain - 1) : 0;
  const double wanted = std::ceil(cost_ / kMostCost - 1e-9);
  every_ = static_cast<int>(std::clamp(wanted, 1.0, double{kMostEvery}));
}

}  // namespace hg::energy
