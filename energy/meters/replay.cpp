#include "energy/meters/replay.h"

#include "tensor/base/error.h"

namespace hg::energy {

ReplayMeter::ReplayMeter(Recording recording) : recording_(std::move(recording)) {
  const std::size_t zones = recording_.zones.size(), reads = recording_.reads.size();
  require(zones > 0 && reads >= zones && reads % zones == 0, "replay",
          "{} reads of {} zones; expected one or more whole rows", reads, zones);
  for (const Recording::Zone& zone : recording_.zones) counters_.emplace_back(zone.spec, log_);
}

std::string ReplayMeter::source() const {
  return fmt::format("{} recorded reads of {} zones", recording_.reads.size() / counters_.size(),
                     counters_.size());
}

Reading ReplayMeter::read() {
  if (done()) return last_;
  last_ = {};
  last_.time_ns = recording_.reads[next_].time_ns;
  for (std::size_t z = 0; z < counters_.size(); ++z)
    add_to(last_, recording_.zones[z].domain, counters_[z].update(recording_.reads[next_++]));
  return last_;
}

}  // namespace hg::energy
