// Turns raw reads of one energy counter into energy since the first good read. Counters wrap, are
// reset, fail to be read, return garbage, vanish and come back. The reading itself is done
// elsewhere, so that all of this can be tested with numbers alone.
#pragma once

#include <optional>
#include <string>

#include "energy/meters/faults.h"

namespace hg::energy {

enum class ReadStatus : std::uint8_t { good, failed, garbage };

struct RawRead {
  std::int64_t time_ns = 0;
  ReadStatus status = ReadStatus::failed;
  std::uint64_t value_uj = 0;
};

struct CounterSpec {
  std::string zone;
  std::uint64_t largest_uj = 0;  // the value before it wraps to 0; 0: unknown, or 64 bits
  Watts max_power;               // what the zone can draw at most
  Seconds slack;                 // how late the counter may show what was drawn
  Seconds longest_still{};       // not to move for longer is a fault; 0: it may
  ReadingError error{};          // its unit, and how often it moves
};

// Of counters that move many times a second as long as the machine is on.
inline constexpr Seconds kLongestStill{1};

// The energy of a full round, from one wrap to the next. The kernel turns 32-bit ticks of q
// nanojoules into microjoules: largest = floor((2^32 - 1) * q / 1000), and a full round is 2^32 *
// q, one tick more. A range of any other form is taken to wrap after `largest`. 0: unknown.
struct Round {
  std::uint64_t whole_uj = 0, part_nj = 0;
};
Round round_of(std::uint64_t largest_uj);

// Energy moves forward at most by what could have been drawn since the counter last moved:
// max_power * (time + slack); slack that is used up comes back with time. A value further away is
// kept as a suspect, and the next reads decide, by the shorter way. If they continue from the last
// good value, the suspect was garbage and nothing is lost. If they continue from the suspect, the
// counter was reset, and what was drawn meanwhile is between nothing and the most possible. The
// same holds of the time that a counter stood still for too long.
class Counter {
 public:
  Counter(CounterSpec spec, FaultLog& faults);

  Counted update(const RawRead& read);

 private:
  struct Point {
    std::uint64_t value_uj;
    std::int64_t moved_ns, read_ns;  // when the value was first and last seen
    double reserve_uj;               // of slack not yet spent
  };
  struct Step {
    std::int64_t low, energy, high;
  };

  void accept(const RawRead& read);
  void wait_for_suspect(const RawRead& read);
  void go_on_from_suspect();
  void take(const Step& step, const RawRead& read);
  std::optional<Step> step(const Point& from, const RawRead& to) const;
  std::int64_t likely_rounds(const Step& least, double round_uj, std::int64_t most,
                             std::int64_t unseen_ns) const;
  void advance(Point& point, const RawRead& to, const Step& step) const;
  void add(const Step& step, const Point& from, const RawRead& to);
  bool stalled(const Point& point) const;
  double most_uj(std::int64_t ns) const;
  double possible_uj(const Point& from, std::int64_t time_ns) const;
  double full_reserve_uj() const { return spec_.max_power.value * spec_.slack.value * 1e6; }
  Point point_at(const RawRead& read) const;

  CounterSpec spec_;
  Round round_;
  FaultLog& faults_;
  FaultLog::Zone zone_;
  std::int64_t opened_ns_ = 0;
  std::optional<Point> last_, suspect_;
  std::uint64_t suspect_fault_ = 0;
  std::uint64_t carried_nj_ = 0;  // of the rounds so far, below a microjoule
  Counted total_{};
};

}  // namespace hg::energy
