// A meter that plays recorded raw reads, so that everything above a meter can be tried without one.
#pragma once

#include <vector>

#include "energy/meters/counter.h"
#include "tensor/base/error.h"

namespace hg::testing {

using namespace hg::energy;

struct Recording {
  struct Zone {
    Domain domain;
    CounterSpec spec;
  };
  std::vector<Zone> zones;
  std::vector<RawRead> reads;  // one for each zone, then the next ones; whole rows only
};

class ReplayMeter final : public Meter {
 public:
  explicit ReplayMeter(Recording recording);

  std::string_view name() const override { return "replay"; }
  Kind kind() const override { return Kind::measured; }
  std::string source() const override;
  Reading read() override;  // the next row; after the last one the last reading again
  bool done() const { return next_ == recording_.reads.size(); }
  std::uint64_t faults() const override { return log_.count(); }
  std::uint64_t faults(FaultKind kind) const { return log_.count(kind); }
  std::vector<Fault> fault_list() const override { return log_.list(); }

 private:
  Recording recording_;
  FaultLog log_;
  std::vector<Counter> counters_;
  std::size_t next_ = 0;
  Reading last_;
};

inline ReplayMeter::ReplayMeter(Recording recording) : recording_(std::move(recording)) {
  const std::size_t zones = recording_.zones.size(), reads = recording_.reads.size();
  require(zones > 0 && reads >= zones && reads % zones == 0, "replay",
          "{} reads of {} zones; expected one or more whole rows", reads, zones);
  for (const Recording::Zone& zone : recording_.zones) counters_.emplace_back(zone.spec, log_);
}

inline std::string ReplayMeter::source() const {
  return fmt::format("{} recorded reads of {} zones", recording_.reads.size() / counters_.size(),
                     counters_.size());
}

inline Reading ReplayMeter::read() {
  if (done()) return last_;
  last_ = {};
  last_.time_ns = recording_.reads[next_].time_ns;
  for (std::size_t z = 0; z < counters_.size(); ++z)
    add_to(last_, recording_.zones[z].domain, counters_[z].update(recording_.reads[next_++]));
  return last_;
}

}  // namespace hg::testing
