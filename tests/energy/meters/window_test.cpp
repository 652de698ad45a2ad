// Windows of measurement by a clock of the test's own: short ones by counters that seldom move.
#include "energy/meters/window.h"

#include <doctest/doctest.h>

#include <cmath>

#include "energy/meters/channel_meter.h"

namespace window_test {

using namespace hg::energy;

constexpr std::int64_t kMs = 1'000'000;

// A GPU of 80 W whose counter moves every 100 ms; time goes on by 1 ms with each read, and with
// work().
class SlowMeter final : public Meter {
 public:
  SlowMeter() {
    meter_.add(Domain::gpu, CounterSpec{"gpu", 0, Watts{300}, Seconds{0.2}, {}, {1000, 0.1}},
               [this](std::int64_t now_ns) {
                 const auto ticks = static_cast<std::uint64_t>((now_ns - 37 * kMs) / (100 * kMs));
                 return RawRead{now_ns, ReadStatus::good, ticks * 8'000'000};
               });
  }
  std::string_view name() const override { return "slow"; }
  Kind kind() const override { return Kind::measured; }
  std::string source() const override { return "80 W"; }
  std::uint64_t faults() const override { return 0; }
  ReadingError reading_error(Domain domain) const override { return meter_.reading_error(domain); }
  Reading read() override {
    ++reads;
    return meter_.read_at(now_ns_ += kMs);
  }
  void work(std::int64_t ns) { now_ns_ += ns; }
  int reads = 0;

 private:
  ChannelMeter meter_{"slow"};
  std::int64_t now_ns_ = 1000 * kMs;
};

TEST_CASE("a window of 50 ms lasts until a counter of 100 ms has moved ten times") {
  SlowMeter meter;
  const Window w = measure(meter, 0.05, [&](std::uint64_t calls) {
    meter.work(static_cast<std::int64_t>(calls) * kMs / 10);
  });
  CHECK(w.seconds > 1);
  CHECK(w.seconds < 1.3);
  CHECK(w.uj[2] == doctest::Approx(80e6 * w.seconds).epsilon(0.005));
}

TEST_CASE("a long window takes what was counted") {
  SlowMeter meter;
  const Window w = measure(
      meter, 10, [&](std::uint64_t calls) { meter.work(static_cast<std::int64_t>(calls) * kMs); });
  CHECK(w.uj[2] == doctest::Approx(80e6 * w.seconds).epsilon(0.02));
  CHECK(std::fmod(w.uj[2], 8e6) == 0);
}

TEST_CASE("idle power is measured over ten moves of a slow counter") {
  SlowMeter meter;
  CHECK(idle_power(meter)->value == doctest::Approx(80).epsilon(0.005));
  CHECK(meter.reads > 200);
}

}  // namespace window_test
