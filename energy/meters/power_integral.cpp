#include "energy/meters/power_integral.h"

#include <algorithm>

namespace hg::energy {
namespace {

MicroJoules rounded(double uj) { return {static_cast<std::int64_t>(std::min(uj, 1e18))}; }

}  // namespace

PowerIntegral::PowerIntegral(PowerSpec spec, FaultLog& faults)
    : spec_(std::move(spec)), faults_(faults), zone_(faults.add_zone(spec_.zone)) {}

Counted PowerIntegral::update(const PowerSample& sample) {
  const double us =
      last_ ? std::max(0.0, static_cast<double>(sample.time_ns - last_->time_ns) * 1e-3) : 0;
  const double most = spec_.max_power.value * us;
  const bool possible = sample.power && sample.power->value >= 0 &&
                        sample.power->value <= spec_.max_power.value &&
                        (!last_ || sample.time_ns >= last_->time_ns);
  if (!possible) {
    faults_.add(sample.power ? FaultKind::garbage : FaultKind::failed_read, sample.time_ns, zone_);
    failed_ = true;
    return {rounded(uj_), rounded(low_uj_), rounded(high_uj_ + most)};
  }
  if (last_) {
    const double a = last_->power->value, b = sample.power->value;
    uj_ += (a + b) / 2 * us;
    low_uj_ += failed_ ? 0 : std::min(a, b) * (1 - spec_.relative_error) * us;
    high_uj_ += failed_ ? most : std::min(std::max(a, b) * (1 + spec_.relative_error) * us, most);
  }
  last_ = sample;
  failed_ = false;
  return {rounded(uj_), rounded(low_uj_), rounded(high_uj_)};
}

}  // namespace hg::energy
