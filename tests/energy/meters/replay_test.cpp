// A million reads with a thousand wraps of four zones, for several waveforms of power.
#include "tests/energy/meters/replay.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "tensor/base/error.h"
#include "tensor/random.h"
#include "tests/support/sanitized.h"

namespace replay_test {

using namespace hg::testing;

constexpr int kReads = 1'000'000, kWraps = 1000;
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kRound = std::uint64_t{1} << 32;  // ticks

// A 32-bit register of ticks of `tick_nj`, shown in microjoules as the kernel does it.
struct Register {
  std::uint64_t tick_nj, ticks = 0, start = 0;

  std::uint64_t shown_uj() const { return ticks % kRound * tick_nj / 1000; }
  std::uint64_t largest_uj() const { return (kRound - 1) * tick_nj / 1000; }
  double drawn_uj() const {
    return static_cast<double>(ticks - start) * static_cast<double>(tick_nj) * 1e-3;
  }
};

// Power over its mean, at most 2, mean 1.
using Waveform = std::function<double(int)>;
std::vector<Waveform> waveforms() {
  return {
      [](int) { return 1.0; }, [](int i) { return 1 + std::sin(2 * std::numbers::pi * i / 977); },
      [](int i) { return i / 50 % 2 ? 2.0 : 0.0; }, [](int i) { return 2.0 * (i % 1000) / 999; },
      [r = hg::RandomStream(7, "power")](int) mutable {
        return static_cast<double>(r.below(2001)) / 1000;
      }};
}

std::vector<Register> four_registers() {  // Intel, AMD, server dram, a large tick
  std::vector<Register> registers{{61035}, {15258}, {15300}, {122070}};
  hg::RandomStream random(3, "start");
  for (Register& r : registers) r.ticks = r.start = random.below(kRound);
  return registers;
}

void draw(Register& r, double relative_power) {
  const double mean = static_cast<double>(kRound) * kWraps / kReads;
  r.ticks += static_cast<std::uint64_t>(mean * relative_power);
}

TEST_CASE("every zone is recovered within one tick for any waveform" *
          doctest::skip(hg::testing::kSanitized)) {
  for (Waveform& wave : waveforms()) {
    for (Register& r : four_registers()) {
      FaultLog log;
      Counter counter({"zone", r.largest_uj(), Watts{2000}, Seconds{0.01}}, log);
      Counted last{};
      bool backwards = false;
      std::uint64_t wraps = 0, shown = r.shown_uj();
      for (int i = 0; i < kReads; ++i) {
        const Counted now = counter.update({i * kSecond, ReadStatus::good, r.shown_uj()});
        backwards |= now.energy < last.energy;
        wraps += r.shown_uj() < shown;
        shown = r.shown_uj();
        last = now;
        if (i + 1 < kReads) draw(r, wave(i));
      }
      CHECK(wraps >= kWraps - 2);
      CHECK_FALSE(backwards);
      CHECK(std::abs(static_cast<double>(last.energy.value) - r.drawn_uj()) <=
            static_cast<double>(r.tick_nj) * 1e-3);
      CHECK(last.low == last.energy);
      CHECK(last.high == last.energy);
      CHECK(log.count() == 0);
    }
  }
}

TEST_CASE("a recording with faults of every kind stays in its bounds") {
  constexpr int kRows = 20000;
  std::vector<Register> registers = four_registers();
  std::vector<Waveform> waves = waveforms();
  Recording recording;
  for (const Register& r : registers)
    recording.zones.push_back({recording.zones.size() % 2 ? Domain::dram : Domain::package,
                               {"zone " + std::to_string(recording.zones.size()), r.largest_uj(),
                                Watts{2000}, Seconds{0.01}}});
  hg::RandomStream random(11, "faults");
  std::vector<double> drawn(2, 0.0);  // by domain
  std::uint64_t failed = 0;
  for (int i = 0; i < kRows; ++i)
    for (std::size_t z = 0; z < registers.size(); ++z) {
      Register& r = registers[z];
      RawRead read{i * kSecond, ReadStatus::good, r.shown_uj()};
      const bool quiet = i < 2 || i + 3 > kRows;  // no faults at the ends
      const std::uint64_t fault = quiet ? 99 : random.below(100);
      if (fault < 5) read.status = ReadStatus::failed;
      if (fault >= 5 && fault < 8) read.value_uj = random.below(r.largest_uj());
      if (fault == 8) r.ticks = random.below(1000);  // a reset, after this read
      failed += read.status == ReadStatus::failed;
      recording.reads.push_back(read);
      if (i + 1 == kRows) continue;
      const std::uint64_t before = r.ticks;
      draw(r, waves[z](i));
      drawn[z % 2] += static_cast<double>(r.ticks - before) * static_cast<double>(r.tick_nj) * 1e-3;
    }
  ReplayMeter meter(std::move(recording));
  Reading last = meter.read();
  while (!meter.done()) {
    const Reading now = meter.read();
    for (std::size_t d = 0; d < 2; ++d) {
      REQUIRE(now.domains[d]->energy >= last.domains[d]->energy);
      REQUIRE(now.domains[d]->low <= now.domains[d]->energy);
      REQUIRE(now.domains[d]->energy <= now.domains[d]->high);
    }
    last = now;
  }
  // One in a hundred random values is so close that it could have been drawn: no one can tell those
  // apart.
  for (std::size_t d = 0; d < 2; ++d) {
    CHECK(static_cast<double>(last.domains[d]->low.value) <= 1.01 * drawn[d]);
    CHECK(static_cast<double>(last.domains[d]->high.value) >= drawn[d]);
    CHECK(static_cast<double>(last.domains[d]->energy.value) >= 0.9 * drawn[d]);
  }
  CHECK_FALSE(last.domains[static_cast<std::size_t>(Domain::gpu)]);
  CHECK(meter.faults(FaultKind::failed_read) == failed);
  CHECK(meter.faults(FaultKind::reset) > 500);
  CHECK(meter.faults(FaultKind::garbage) > 1500);
  CHECK(meter.read().time_ns == last.time_ns);  // after the last row the last reading is repeated
}

TEST_CASE("replay refuses half rows") {
  CHECK_THROWS_AS(ReplayMeter({}), hg::Error);
  Recording half;
  half.zones.resize(2);
  half.reads.resize(3);
  CHECK_THROWS_AS(ReplayMeter(std::move(half)), hg::Error);
}

}  // namespace replay_test
