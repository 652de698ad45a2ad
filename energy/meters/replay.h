// A meter that plays recorded raw reads, so that everything above a meter can be tried without one.
#pragma once

#include <vector>

#include "energy/meters/counter.h"

namespace hg::energy {

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

}  // namespace hg::energy
