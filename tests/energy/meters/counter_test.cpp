// From raw reads to energy: wraps, resets, failures, garbage and gaps, with numbers alone.
#include "energy/meters/counter.h"

#include <doctest/doctest.h>

#include <cmath>

namespace counter_test {

using namespace hg::energy;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kJoule = 1'000'000;
constexpr std::uint64_t kIntelRange = 262143328850;

// A counter of 1000 W at most, read at times in seconds with values in joules.
class Bench {
 public:
  explicit Bench(std::uint64_t largest_uj = kIntelRange, Seconds longest_still = {})
      : counter_({"zone", largest_uj, Watts{1000}, Seconds{0.01}, longest_still}, log) {}

  Counted good(double s, double joules) {
    return raw(s, ReadStatus::good, static_cast<std::uint64_t>(joules * kJoule + 0.5));
  }
  Counted failed(double s) { return raw(s, ReadStatus::failed, 0); }
  Counted raw(double s, ReadStatus status, std::uint64_t uj) {
    const Counted now = counter_.update({static_cast<std::int64_t>(s * kSecond), status, uj});
    CHECK(now.low <= now.energy);
    CHECK(now.energy <= now.high);
    CHECK(now.energy >= last_.energy);
    CHECK(now.low >= last_.low);
    return last_ = now;
  }

  FaultLog log;

 private:
  Counter counter_;
  Counted last_{};
};

double joules(MicroJoules e) { return to_joules(e).value; }
bool certain(const Counted& c) { return c.low == c.energy && c.energy == c.high; }

TEST_CASE("a full round of the kernel's microjoules is one tick more than their range") {
  CHECK(round_of(kIntelRange).whole_uj == 262143328911);  // 2^32 * 61.035
  CHECK(round_of(kIntelRange).part_nj == 360);
  CHECK(round_of(65532610987).whole_uj == 65532611002);  // AMD, 2^32 * 15.258
  CHECK(round_of(65712999613).whole_uj == 65712999628);  // dram of servers, 2^32 * 15.3
  CHECK(round_of(999'999).whole_uj == 1'000'000);
  CHECK(round_of(999'999).part_nj == 0);
  CHECK(round_of(~std::uint64_t{0} - 1).whole_uj == ~std::uint64_t{0});
  CHECK(round_of(0).whole_uj == 0);
}

TEST_CASE("energy counts from the first good read") {
  Bench b;
  CHECK(joules(b.good(0, 5000).energy) == 0);
  CHECK(joules(b.good(1, 5050).energy) == 50);
  const Counted end = b.good(2, 5175.5);
  CHECK(joules(end.energy) == doctest::Approx(175.5));
  CHECK(certain(end));
  CHECK(b.log.count() == 0);
}

TEST_CASE("a wrap is a step like any other") {
  Bench b;
  b.raw(0, ReadStatus::good, kIntelRange - 10 * kJoule);
  const Counted end = b.raw(1, ReadStatus::good, 30 * kJoule);
  CHECK(end.energy.value == static_cast<std::int64_t>(40 * kJoule + 61));
  CHECK(certain(end));
  CHECK(b.log.count() == 0);
}

TEST_CASE("a reset invents nothing and says what may be missing") {
  Bench b;
  b.good(0, 5000);
  b.good(1, 5100);
  CHECK(joules(b.good(2, 0.5).energy) == 100);  // a wrap would be 257,043 J
  CHECK(b.log.count(FaultKind::garbage) == 1);
  const Counted end = b.good(3, 80.5);
  CHECK(joules(end.energy) == 180);
  CHECK(joules(end.low) == 180);
  CHECK(joules(end.high) == 1180);  // 1000 W in the second of the reset
  CHECK(b.log.count() == 1);
  CHECK(b.log.count(FaultKind::reset) == 1);
  const Fault fault = b.log.list().at(0);
  CHECK(fault.kind == FaultKind::reset);
  CHECK(fault.time_ns == 2 * kSecond);
  CHECK(fault.zone == "zone");
}

TEST_CASE("garbage is skipped and the next good read has it all") {
  Bench b;
  b.good(0, 100);
  for (const double garbage : {200000.0, 0.0, 99.0, 4321.0}) b.good(1, garbage);
  b.raw(1.5, ReadStatus::good, kIntelRange + 1);
  b.raw(1.5, ReadStatus::garbage, 0);
  CHECK(joules(b.good(2, 220).energy) == 120);
  CHECK(certain(b.good(3, 230)));
  CHECK(b.log.count() == 6);
  CHECK(b.log.count(FaultKind::garbage) == 6);
}

TEST_CASE("a value that stays on one wrong figure is no reset") {
  Bench b;
  b.good(0, 100);
  for (int i = 1; i <= 20; ++i) b.good(0.05 * i, 0);
  const Counted end = b.good(1.1, 160);
  CHECK(joules(end.energy) == 60);
  CHECK(certain(end));
  CHECK(b.log.count() == 1);
}

TEST_CASE("energy across failed reads is recovered and bounded until then") {
  Bench b;
  b.good(0, 10);
  b.good(1, 60);
  const Counted gone = b.failed(3);
  CHECK(joules(gone.energy) == 50);
  CHECK(joules(gone.low) == 50);
  CHECK(joules(gone.high) == 50 + 2000);
  const Counted back = b.good(4, 210);
  CHECK(joules(back.energy) == 200);
  CHECK(certain(back));
  CHECK(b.log.count(FaultKind::failed_read) == 1);
}

TEST_CASE("a gap long enough for several rounds is a range around the mean power") {
  Bench b(65532610987);  // 65.5 kJ: 65.5 s at 1000 W
  b.good(0, 0);
  b.good(100, 20000);  // 200 W
  b.failed(500);
  const double true_j = 20000 + 900 * 200;
  const Counted end = b.good(1000, std::fmod(true_j, 65532.611002));
  CHECK(b.log.count(FaultKind::gap) == 2);  // 100 s were too long as well
  CHECK(joules(end.energy) == doctest::Approx(true_j).epsilon(1e-6));
  CHECK(joules(end.low) == doctest::Approx(true_j - 2 * 65532.611).epsilon(1e-6));
  CHECK(joules(end.high) <= 1000 * 1000 + 10);
  CHECK(joules(end.high) > 900e3);
}

TEST_CASE("no interval exceeds what can be drawn however often it is read") {
  Bench b;
  b.good(0, 0);
  double energy = 0;
  for (int i = 1; i <= 10000; ++i) energy = joules(b.good(1e-3 * i, 9.0 * i).energy);  // 9 kW
  CHECK(energy <= 1000 * 10 + 10);
}

TEST_CASE("a counter that moves rarely brings what was drawn since it last moved") {
  Bench b;
  b.good(0, 100);
  for (int i = 1; i < 100; ++i) b.good(0.01 * i, 100);
  CHECK(joules(b.good(1, 600).energy) == 500);
  CHECK(b.log.count() == 0);
}

TEST_CASE("a counter that stands still for too long is a fault and anything may have been drawn") {
  Bench b(kIntelRange, kLongestStill);
  b.good(0, 0);
  b.good(0.5, 71.5);
  for (int i = 51; i <= 150; ++i) CHECK(certain(b.good(0.01 * i, 71.5)));
  CHECK(b.log.count() == 0);
  Counted now{};
  for (int i = 151; i <= 1000; ++i) now = b.good(0.01 * i, 71.5);
  CHECK(joules(now.low) == 71.5);
  CHECK(joules(now.energy) == 71.5);
  CHECK(joules(now.high) == doctest::Approx(71.5 + 1000 * 9.5));  // of all the time it stood still
  CHECK(b.log.count() == 1);
  CHECK(b.log.count(FaultKind::stall) == 1);
  CHECK(joules(b.failed(10.5).high) == doctest::Approx(71.5 + 1000 * 10));
}

TEST_CASE("a counter that moves again after it stood still may have missed what was drawn") {
  Bench b(kIntelRange, kLongestStill);
  b.good(0, 0);
  for (int i = 0; i <= 400; ++i) b.good(0.01 * i, 0);
  b.good(4.01, 3000);  // the energy of all that time at once: possible
  const Counted end = b.good(5.01, 3100);
  CHECK(joules(end.low) == 3100);
  CHECK(joules(end.energy) == 3100);
  CHECK(joules(end.high) == doctest::Approx(4010 + 100));
  CHECK(b.log.count() == 1);
}

TEST_CASE("a counter that nobody read for a while did not stand still") {
  Bench b(kIntelRange, kLongestStill);
  b.good(0, 0);
  CHECK(certain(b.good(10, 50)));
  CHECK(b.log.count() == 0);
}

TEST_CASE("without a range a step back is a reset") {
  Bench b(0);
  b.good(0, 1e6);
  b.good(1, 1e6 + 70);
  b.good(2, 3);
  const Counted end = b.good(3, 53);
  CHECK(joules(end.energy) == 120);
  CHECK(joules(end.high) == 1120);
  CHECK(b.log.count(FaultKind::reset) == 1);
}

TEST_CASE("a first read of garbage is no origin") {
  Bench b;
  b.failed(0);
  b.good(1, 0);
  b.good(2, 200000);
  const Counted end = b.good(3, 200050);
  CHECK(joules(end.energy) == 50);
  CHECK(joules(end.high) == 1050);
}

TEST_CASE("time that runs backwards is garbage") {
  Bench b;
  b.good(5, 0);
  b.good(6, 10);
  b.good(4, 20);
  CHECK(joules(b.good(7, 30).energy) == 30);
  CHECK(b.log.count(FaultKind::garbage) == 1);
}

TEST_CASE("the list of faults is cut short but not their count") {
  Bench b;
  b.good(0, 0);
  for (int i = 1; i <= 5000; ++i) b.failed(i);
  CHECK(b.log.count() == 5000);
  CHECK(b.log.list().size() == 1000);
}

}  // namespace counter_test
