#include "energy/meters/counter.h"

#include <algorithm>
#include <cmath>

#include "tensor/base/clock.h"

namespace hg::energy {
namespace {

constexpr std::uint64_t kTicks = std::uint64_t{1} << 32;
// Bounds that keep sums of garbage inside 64 bits: 10^9 J in one step, 10^11 J in all.
constexpr double kMostInStepUj = 1e15;
constexpr std::int64_t kMostUj = 100'000'000'000'000'000;

// Counters that move in jumps do so at least this often.
constexpr std::int64_t kSlowestNs = 1'000'000'000;

void add_up(MicroJoules& sum, std::int64_t more) {
  sum.value = std::min(sum.value, kMostUj - more) + more;
}

}  // namespace

Round round_of(std::uint64_t largest_uj) {
  if (largest_uj == 0) return {};
  constexpr std::uint64_t kLargestKernelRange = kTicks * 1000;  // a tick of 1 mJ
  if (largest_uj <= kLargestKernelRange) {
    const std::uint64_t tick_nj = (largest_uj * 1000 + kTicks - 2) / (kTicks - 1);
    if ((kTicks - 1) * tick_nj / 1000 == largest_uj)
      return {kTicks * tick_nj / 1000, kTicks * tick_nj % 1000};
  }
  return {largest_uj + 1, 0};
}

Counter::Counter(CounterSpec spec, FaultLog& faults)
    : spec_(std::move(spec)),
      round_(round_of(spec_.largest_uj)),
      faults_(faults),
      zone_(faults.add_zone(spec_.zone)) {}

double Counter::most_uj(std::int64_t ns) const {
  return std::min(spec_.max_power.value * static_cast<double>(ns) * 1e-3, kMostInStepUj);
}

// Only a value that was seen again and again stood still; between two reads it may have moved.
bool Counter::stalled(const Point& point) const {
  return spec_.longest_still.value > 0 &&
         seconds_between(point.moved_ns, point.read_ns) > spec_.longest_still.value;
}

// A value that stays the same while it is read shows that nothing was drawn, unless the counter
// moves in jumps, or does not count.
double Counter::possible_uj(const Point& from, std::int64_t time_ns) const {
  const std::int64_t still_ns = time_ns - from.moved_ns;
  const std::int64_t jump_ns = stalled(from) ? still_ns : std::min(still_ns, kSlowestNs);
  return most_uj(std::max(time_ns - from.read_ns, jump_ns)) + from.reserve_uj;
}

Counter::Point Counter::point_at(const RawRead& read) const {
  const double left = last_ ? possible_uj(*last_, read.time_ns) : full_reserve_uj();
  return {read.value_uj, read.time_ns, read.time_ns, std::min(left, full_reserve_uj())};
}

Counted Counter::update(const RawRead& read) {
  const bool goes_back = last_ && read.time_ns < last_->read_ns;
  const bool out_of_range = spec_.largest_uj > 0 && read.value_uj > spec_.largest_uj;
  if (read.status == ReadStatus::failed)
    faults_.add(FaultKind::failed_read, read.time_ns, zone_);
  else if (read.status == ReadStatus::garbage || goes_back || out_of_range)
    faults_.add(FaultKind::garbage, read.time_ns, zone_);
  else
    accept(read);

  Counted now = total_;
  if (!last_) return now;
  const std::int64_t known_ns = stalled(*last_) ? last_->moved_ns : last_->read_ns;
  if (read.time_ns > known_ns)
    add_up(now.high, static_cast<std::int64_t>(most_uj(read.time_ns - known_ns)));
  return now;
}

void Counter::accept(const RawRead& read) {
  if (!last_) {
    last_ = point_at(read);
    opened_ns_ = read.time_ns;
    return;
  }
  if (suspect_ && read.value_uj == suspect_->value_uj) return wait_for_suspect(read);
  const auto from_last = step(*last_, read);
  const auto from_suspect =
      suspect_ && read.time_ns >= suspect_->read_ns ? step(*suspect_, read) : std::nullopt;
  if (from_suspect && !(from_last && from_last->low <= from_suspect->low)) {
    go_on_from_suspect();
    take(*from_suspect, read);
  } else if (from_last) {
    take(*from_last, read);
  } else {
    suspect_ = point_at(read);
    suspect_fault_ = faults_.add(FaultKind::garbage, read.time_ns, zone_);
  }
}

// A value that does not change proves nothing. It is accepted once a return to the last good value
// could no longer be told from a wrap.
void Counter::wait_for_suspect(const RawRead& read) {
  suspect_->read_ns = std::max(suspect_->read_ns, read.time_ns);
  const double tellable = static_cast<double>(round_.whole_uj) / 4;
  if (round_.whole_uj > 0 && possible_uj(*last_, read.time_ns) > tellable) go_on_from_suspect();
}

void Counter::go_on_from_suspect() {
  faults_.relabel(suspect_fault_, FaultKind::garbage, FaultKind::reset);
  const std::int64_t known_ns = stalled(*last_) ? last_->moved_ns : last_->read_ns;
  add_up(total_.high, static_cast<std::int64_t>(most_uj(suspect_->moved_ns - known_ns)));
  last_ = suspect_;
  suspect_.reset();
}

void Counter::take(const Step& step, const RawRead& read) {
  const bool stood_still = stalled(*last_);
  add(step, *last_, read);
  if (stood_still && read.value_uj != last_->value_uj) {  // it moves again; it may have missed some
    const double most = most_uj(read.time_ns - last_->moved_ns);
    add_up(total_.high, std::max<std::int64_t>(0, static_cast<std::int64_t>(most) - step.high));
  }
  advance(*last_, read, step);
  if (!stood_still && stalled(*last_)) faults_.add(FaultKind::stall, read.time_ns, zone_);
  suspect_.reset();
}

// None if more lies between the two values than could have been drawn.
std::optional<Counter::Step> Counter::step(const Point& from, const RawRead& to) const {
  const bool wraps = to.value_uj < from.value_uj;
  if (wraps && round_.whole_uj == 0) return std::nullopt;
  std::uint64_t way = to.value_uj - from.value_uj;
  if (wraps) way += round_.whole_uj + (carried_nj_ + round_.part_nj) / 1000;
  if (static_cast<double>(way) > possible_uj(from, to.time_ns)) return std::nullopt;

  const auto least = static_cast<std::int64_t>(way);
  Step step{least, least, least};
  if (round_.whole_uj == 0) return step;
  // Whole rounds can hide only in the time between two reads.
  const std::int64_t unseen_ns = to.time_ns - from.read_ns;
  const double round_uj =
      static_cast<double>(round_.whole_uj) + static_cast<double>(round_.part_nj) * 1e-3;
  const double room = most_uj(unseen_ns) + from.reserve_uj - static_cast<double>(way);
  const auto most = static_cast<std::int64_t>(std::max(0.0, room / round_uj));
  if (most == 0) return step;
  const std::int64_t likely = likely_rounds(step, round_uj, most, unseen_ns);
  step.energy += static_cast<std::int64_t>(round_uj * static_cast<double>(likely));
  step.high += static_cast<std::int64_t>(round_uj * static_cast<double>(most));
  return step;
}

// How many whole rounds fit the unseen time best, by the mean power so far.
std::int64_t Counter::likely_rounds(const Step& least, double round_uj, std::int64_t most,
                                    std::int64_t unseen_ns) const {
  const std::int64_t seen_ns = last_->read_ns - opened_ns_;
  if (seen_ns <= 0) return 0;
  const double expected = static_cast<double>(total_.energy.value) / static_cast<double>(seen_ns) *
                          static_cast<double>(unseen_ns);
  const double rounds = (expected - static_cast<double>(least.energy)) / round_uj;
  return std::llround(std::clamp(rounds, 0.0, static_cast<double>(most)));
}

void Counter::add(const Step& step, const Point& from, const RawRead& to) {
  if (to.value_uj < from.value_uj) carried_nj_ = (carried_nj_ + round_.part_nj) % 1000;
  if (step.high > step.low) faults_.add(FaultKind::gap, to.time_ns, zone_);
  add_up(total_.low, step.low);
  add_up(total_.energy, step.energy);
  add_up(total_.high, step.high);
}

void Counter::advance(Point& point, const RawRead& to, const Step& step) const {
  if (to.value_uj != point.value_uj || step.energy > 0) {
    const double left = possible_uj(point, to.time_ns) - static_cast<double>(step.energy);
    point.reserve_uj = std::min(left, full_reserve_uj());
    point.moved_ns = to.time_ns;
    point.value_uj = to.value_uj;
  }
  point.read_ns = to.time_ns;
}

}  // namespace hg::energy
