// Energy from samples of power, for devices that count no energy. Between two samples the power is
// interpolated, and bounded by the two and the sensor's error. While reads fail, anything up to the
// device's maximum is possible.
#pragma once

#include <optional>
#include <string>

#include "energy/meters/faults.h"

namespace hg::energy {

struct PowerSample {
  std::int64_t time_ns = 0;
  std::optional<Watts> power;  // none: the read failed
};

struct PowerSpec {
  std::string zone;
  Watts max_power;
  double relative_error = 0;
  Seconds averaged_over{};  // each sample is the mean of so long before it
};

class PowerIntegral {
 public:
  PowerIntegral(PowerSpec spec, FaultLog& faults);

  Counted update(const PowerSample& sample);

 private:
  PowerSpec spec_;
  FaultLog& faults_;
  FaultLog::Zone zone_;
  std::optional<PowerSample> last_;
  bool failed_ = false;  // since last_
  double low_uj_ = 0, uj_ = 0, high_uj_ = 0;
};

}  // namespace hg::energy
