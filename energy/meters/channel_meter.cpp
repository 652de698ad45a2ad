#include "energy/meters/channel_meter.h"

#include "tensor/backend.h"

namespace hg::energy {

ChannelMeter::ChannelMeter(std::string name, std::string source)
    : name_(std::move(name)), source_(std::move(source)) {}

void ChannelMeter::add(Domain domain, CounterSpec spec, std::unique_ptr<RawSource> raw) {
  counters_.push_back({domain, Counter(std::move(spec), log_), std::move(raw)});
}

void ChannelMeter::add(Domain domain, PowerSpec spec, std::unique_ptr<PowerSource> raw) {
  powers_.push_back({domain, PowerIntegral(std::move(spec), log_), std::move(raw)});
}

Reading ChannelMeter::read() {
  Reading reading;
  reading.time_ns = backend(Device::cpu).timestamp_ns();
  const auto add_all = [&reading](auto& channels) {
    for (auto& c : channels)
      add_to(reading, c.domain, c.sum.update(c.source->read(reading.time_ns)));
  };
  add_all(counters_);
  add_all(powers_);
  return reading;
}

}  // namespace hg::energy
