// A meter made of channels: one for each counter that is summed into a domain.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "energy/meters/counter.h"
#include "energy/meters/power_integral.h"

namespace hg::energy {

// Reads one counter or sensor; never allocates, never throws.
class RawSource {
 public:
  virtual ~RawSource() = default;
  virtual RawRead read(std::int64_t now_ns) = 0;
};
class PowerSource {
 public:
  virtual ~PowerSource() = default;
  virtual PowerSample read(std::int64_t now_ns) = 0;
};

class ChannelMeter final : public Meter {
 public:
  explicit ChannelMeter(std::string name, std::string source = "");

  void set_source(std::string source) { source_ = std::move(source); }
  void add(Domain domain, CounterSpec spec, std::unique_ptr<RawSource> raw);
  void add(Domain domain, PowerSpec spec, std::unique_ptr<PowerSource> raw);

  std::string_view name() const override { return name_; }
  Kind kind() const override { return Kind::measured; }
  std::string source() const override { return source_; }
  Reading read() override;
  std::uint64_t faults() const override { return log_.count(); }
  std::vector<Fault> fault_list() const override { return log_.list(); }

 private:
  template <class Sum, class Source>
  struct Channel {
    Domain domain;
    Sum sum;
    std::unique_ptr<Source> source;
  };

  std::string name_, source_;
  FaultLog log_;
  std::vector<Channel<Counter, RawSource>> counters_;
  std::vector<Channel<PowerIntegral, PowerSource>> powers_;
};

}  // namespace hg::energy
