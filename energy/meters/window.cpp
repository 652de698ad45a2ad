#include "energy/meters/window.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "tensor/base/clock.h"

namespace hg::energy {
namespace {

constexpr double kEnoughUj = 61'000;
constexpr int kReads = 20;        // a window
constexpr int kEnoughMoves = 10;  // of a counter: then its steps no longer matter

// What a domain's counter showed when it moved first and last.
class Moves {
 public:
  Moves(const Meter& meter, std::size_t domain)
      : domain_(domain),
        period_s_(meter.reading_error(static_cast<Domain>(domain)).update_period_s) {}

  void note(const Reading& reading) {
    if (!reading.domains[domain_]) return;
    const AsOf& as_of = reading.as_of[domain_];
    const Seen now{as_of.time_ns > 0 ? as_of.time_ns : reading.time_ns,
                   reading.domains[domain_]->energy};
    if (!start_) start_ = now;
    if (now.energy == start_->energy || (last_ && now.time_ns <= last_->time_ns)) return;
    if (!last_ || now.energy != last_->energy) ++moves_;
    if (!first_) first_ = now;
    last_ = now;
  }

  bool counts() const { return start_.has_value(); }
  bool slow(double window_s) const { return period_s_ > window_s / kReads; }
  bool enough() const { return moves_ > kEnoughMoves; }
  double longest_s() const { return 3 * kEnoughMoves * period_s_; }
  double uj() const {
    return last_ ? static_cast<double>((last_->energy - start_->energy).value) : 0;
  }
  // Between the first move and the last; 0 where there are not two.
  Watts power() const {
    if (moves_ < 2) return {0};
    return to_joules(last_->energy - first_->energy) / from_ns(last_->time_ns - first_->time_ns);
  }

 private:
  struct Seen {
    std::int64_t time_ns = 0;
    MicroJoules energy;
  };
  std::size_t domain_;
  double period_s_;
  int moves_ = 0;
  std::optional<Seen> start_, first_, last_;
};

std::vector<Moves> moves_of(const Meter& meter) {
  std::vector<Moves> moves;
  for (std::size_t d = 0; d < kDomains; ++d) moves.emplace_back(meter, d);
  return moves;
}

}  // namespace

// A counter that is slow for the window begins and ends somewhere within it. The work is the same
// all along, so its power between two moves is that of the whole.
Window measure(Meter& meter, double seconds, const std::function<void(std::uint64_t calls)>& body) {
  const Reading first = meter.read();
  const double cpu = process_cpu_s();
  std::vector<Moves> moves = moves_of(meter);
  for (Moves& m : moves) m.note(first);
  const auto waits_for = [&](const Moves& m, double elapsed_s) {
    return m.counts() && m.slow(seconds) && !m.enough() && elapsed_s < m.longest_s();
  };
  Window w;
  std::uint64_t batch = 1;
  const auto goes_on = [&] {
    return w.seconds < seconds || (w.total_uj() < kEnoughUj && w.seconds < 10 * seconds) ||
           std::any_of(moves.begin(), moves.end(),
                       [&](const Moves& m) { return waits_for(m, w.seconds); });
  };
  while (goes_on()) {
    body(batch);
    w.calls += batch;
    const Reading now = meter.read();
    w.seconds = seconds_between(first.time_ns, now.time_ns);
    for (std::size_t d = 0; d < kDomains; ++d) {
      moves[d].note(now);
      w.uj[d] = moves[d].uj();
    }
    const double per_call = w.seconds / static_cast<double>(w.calls);
    batch = static_cast<std::uint64_t>(std::clamp(seconds / kReads / per_call, 1.0, 1e9));
  }
  for (std::size_t d = 0; d < kDomains; ++d)
    if (moves[d].slow(seconds) && moves[d].power().value > 0)
      w.uj[d] = moves[d].power().value * w.seconds * 1e6;
  w.cpu_seconds = process_cpu_s() - cpu;
  return w;
}

std::optional<Watts> idle_power(Meter& meter) {
  constexpr double kSeconds = 0.05, kLongest = 2.5;
  if (meter.kind() != Kind::measured) return std::nullopt;
  std::vector<Moves> moves = moves_of(meter);
  const std::int64_t start = now_ns();
  const auto goes_on = [&] {
    const double elapsed = seconds_since(start);
    if (elapsed < kSeconds) return true;
    return elapsed < kLongest && std::any_of(moves.begin(), moves.end(), [&](const Moves& m) {
             return m.counts() && !m.enough() && elapsed < m.longest_s();
           });
  };
  while (goes_on()) {
    const Reading now = meter.read();
    for (Moves& m : moves) m.note(now);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  Watts sum;
  for (const Moves& m : moves) sum.value += m.power().value;
  return sum;
}

}  // namespace hg::energy
