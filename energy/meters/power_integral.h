// Energy from samples of power, for devices that count no energy. Between two samples the power is
// taken to go straight from one to the other, and known to stay between them give or take the
// sensor's error; across failed reads anything up to the device's maximum was possible.
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
