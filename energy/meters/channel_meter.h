// A meter made of channels: one for each counter or sensor that is summed into a domain.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "energy/meters/counter.h"
#include "energy/meters/power_integral.h"

namespace hg::energy {

// Read a channel at the time given. They must not allocate or throw.
using ReadCounter = std::function<RawRead(std::int64_t now_ns)>;
using ReadPower = std::function<PowerSample(std::int64_t now_ns)>;

class ChannelMeter final : public Meter {
 public:
  explicit ChannelMeter(std::string name, std::string source = "")
      : name_(std::move(name)), source_(std::move(source)) {}

  void set_source(std::string source) { source_ = std::move(source); }
  void add(Domain domain, CounterSpec spec, ReadCounter read);
  void add(Domain domain, PowerSpec spec, ReadPower read);

  std::string_view name() const override { return name_; }
  Kind kind() const override { return Kind::measured; }
  Watts max_power(Domain domain) const override {
    return max_power_[static_cast<std::size_t>(domain)];
  }
  std::string source() const override { return source_; }
  Reading read() override;
  std::uint64_t faults() const override { return log_.count(); }
  std::vector<Fault> fault_list() const override { return log_.list(); }

 private:
  struct Channel {
    Domain domain;
    std::function<Counted(std::int64_t now_ns)> counted;
  };

  std::string name_, source_;
  FaultLog log_;
  std::vector<Channel> channels_;
  std::array<Watts, kDomains> max_power_{};  // of its channels together
};

}  // namespace hg::energy
