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
// Whether others draw from the channel, too.
using IsShared = std::function<bool(std::int64_t now_ns)>;

class ChannelMeter final : public Meter {
 public:
  explicit ChannelMeter(std::string name, std::string source = "")
      : name_(std::move(name)), source_(std::move(source)) {}

  void set_source(std::string source) { source_ = std::move(source); }
  void add(Domain domain, CounterSpec spec, ReadCounter read, IsShared shared = {});
  void add(Domain domain, PowerSpec spec, ReadPower read, IsShared shared = {});

  std::string_view name() const override { return name_; }
  Kind kind() const override;
  Kind kind_of(Domain domain) const override;
  ReadingError reading_error(Domain domain) const override {
    return error_[static_cast<std::size_t>(domain)];
  }
  Watts max_power(Domain domain) const override {
    return max_power_[static_cast<std::size_t>(domain)];
  }
  std::string source() const override { return source_; }
  Reading read() override;
  Reading read_at(std::int64_t now_ns);
  std::uint64_t faults() const override { return log_.count(); }
  std::vector<Fault> fault_list() const override { return log_.list(); }

 private:
  struct Channel {
    Domain domain;
    std::function<Counted(std::int64_t now_ns)> counted;
    ReadingError error;
    Seconds averaged_over;
    IsShared is_shared;
    FaultLog::Zone zone;
    bool shared = false;            // when it was read last
    MicroJoules energy{}, low{};    // as they were read last
    MicroJoules not_surely_ours{};  // of low: drawn while others drew, too
    std::int64_t read_ns = 0;
    AsOf as_of{};
  };
  void add(Channel channel, Watts max_power);
  Counted read(Channel& channel, std::int64_t now_ns);
  void note_sharing(Channel& channel, std::int64_t now_ns);

  std::string name_, source_;
  FaultLog log_;
  std::vector<Channel> channels_;
  std::array<Watts, kDomains> max_power_{};  // of its channels together
  std::array<ReadingError, kDomains> error_{};
  std::array<bool, kDomains> was_shared_{};
};

}  // namespace hg::energy
