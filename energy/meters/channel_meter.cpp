#include "energy/meters/channel_meter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tensor/base/clock.h"

namespace hg::energy {
namespace {

template <class Sum, class Read>
auto counting(Sum sum, Read read) {
  return [sum = std::move(sum), read = std::move(read)](std::int64_t now_ns) mutable {
    return sum.update(read(now_ns));
  };
}

std::int64_t in_ns(double seconds) { return std::llround(seconds * 1e9); }

// A counter has moved since it was read last, and at most a period ago.
AsOf moved_by(std::int64_t now_ns, std::int64_t read_ns, double period_s) {
  const std::int64_t period = in_ns(period_s);
  const std::int64_t span = read_ns > 0 ? std::min(now_ns - read_ns, period) : period;
  return {now_ns - span / 2, span};
}

}  // namespace

void ChannelMeter::add(Domain domain, CounterSpec spec, ReadCounter read, IsShared shared) {
  const Watts most = spec.max_power;
  const ReadingError error = spec.error;
  const FaultLog::Zone zone = log_.add_zone(spec.zone);
  add({domain,
       counting(Counter(std::move(spec), log_), std::move(read)),
       error,
       {},
       std::move(shared),
       zone},
      most);
}

void ChannelMeter::add(Domain domain, PowerSpec spec, ReadPower read, IsShared shared) {
  const Watts most = spec.max_power;
  const Seconds averaged_over = spec.averaged_over;
  const FaultLog::Zone zone = log_.add_zone(spec.zone);
  add({domain,
       counting(PowerIntegral(std::move(spec), log_), std::move(read)),
       {1, averaged_over.value},
       averaged_over,
       std::move(shared),
       zone},
      most);
}

void ChannelMeter::add(Channel channel, Watts max_power) {
  const auto d = static_cast<std::size_t>(channel.domain);
  const bool first = max_power_[d].value == 0;
  max_power_[d].value += max_power.value;
  ReadingError& error = error_[d];
  const ReadingError more = channel.error;
  error = first ? more
                : ReadingError{std::hypot(error.quantum_uj, more.quantum_uj),
                               std::max(error.update_period_s, more.update_period_s)};
  channels_.push_back(std::move(channel));
}

Kind ChannelMeter::kind() const {
  return std::find(was_shared_.begin(), was_shared_.end(), true) == was_shared_.end()
             ? Kind::measured
             : Kind::apportioned;
}

Kind ChannelMeter::kind_of(Domain domain) const {
  return was_shared_[static_cast<std::size_t>(domain)] ? Kind::apportioned : Kind::measured;
}

Reading ChannelMeter::read() { return read_at(now_ns()); }

// A domain of several channels is as of their mean time.
Reading ChannelMeter::read_at(std::int64_t now_ns) {
  Reading reading;
  reading.time_ns = now_ns;
  std::array<std::int64_t, kDomains> before{}, channels{};
  for (Channel& c : channels_) {
    const auto d = static_cast<std::size_t>(c.domain);
    add_to(reading, c.domain, read(c, now_ns));
    before[d] += now_ns - c.as_of.time_ns;
    ++channels[d];
    reading.as_of[d].time_ns = now_ns - before[d] / channels[d];
    reading.as_of[d].span_ns = std::max(reading.as_of[d].span_ns, c.as_of.span_ns);
  }
  return reading;
}

Counted ChannelMeter::read(Channel& c, std::int64_t now_ns) {
  Counted counted = c.counted(now_ns);
  const std::int64_t averaged = in_ns(c.averaged_over.value);
  if (averaged > 0) {  // counts on all the time, but cannot tell moments that are nearer together
    if (now_ns - c.as_of.time_ns >= averaged) c.as_of = {now_ns, 2 * averaged};
  } else if (c.read_ns == 0 || counted.energy != c.energy) {
    c.as_of = moved_by(now_ns, c.read_ns, c.error.update_period_s);
  }
  if (c.is_shared) note_sharing(c, now_ns);
  if (c.shared) c.not_surely_ours += counted.low - c.low;
  c.read_ns = now_ns;
  c.energy = counted.energy;
  c.low = counted.low;
  counted.low = counted.low - c.not_surely_ours;
  return counted;
}

void ChannelMeter::note_sharing(Channel& c, std::int64_t now_ns) {
  const bool before = std::exchange(c.shared, c.is_shared(now_ns));
  if (!c.shared) return;
  was_shared_[static_cast<std::size_t>(c.domain)] = true;
  if (!before) log_.add(FaultKind::shared, now_ns, c.zone);
}

}  // namespace hg::energy
