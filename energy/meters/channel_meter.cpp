#include "energy/meters/channel_meter.h"

#include "tensor/base/clock.h"

namespace hg::energy {
namespace {

template <class Sum, class Read>
auto counting(Sum sum, Read read) {
  return [sum = std::move(sum), read = std::move(read)](std::int64_t now_ns) mutable {
    return sum.update(read(now_ns));
  };
}

}  // namespace

void ChannelMeter::add(Domain domain, CounterSpec spec, ReadCounter read) {
  max_power_[static_cast<std::size_t>(domain)].value += spec.max_power.value;
  channels_.push_back({domain, counting(Counter(std::move(spec), log_), std::move(read))});
}

void ChannelMeter::add(Domain domain, PowerSpec spec, ReadPower read) {
  max_power_[static_cast<std::size_t>(domain)].value += spec.max_power.value;
  channels_.push_back({domain, counting(PowerIntegral(std::move(spec), log_), std::move(read))});
}

Reading ChannelMeter::read() {
  Reading reading;
  reading.time_ns = now_ns();
  for (Channel& c : channels_) add_to(reading, c.domain, c.counted(reading.time_ns));
  return reading;
}

}  // namespace hg::energy
