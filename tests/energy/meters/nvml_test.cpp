// NVML through a stand-in library with two GPUs: only the one in use is counted, by what it offers.
#include "energy/meters/nvml.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "energy/meters/channel_meter.h"
#include "tests/support/environment.h"

namespace nvml_test {

using namespace hg::energy;
using hg::testing::Environment;

constexpr std::size_t kGpu = static_cast<std::size_t>(Domain::gpu);

Counted gpu_reading(Meter& meter) {
  const Reading reading = meter.read();
  REQUIRE(reading.domains[kGpu]);
  CHECK_FALSE(reading.domains[0]);
  CHECK_FALSE(reading.domains[1]);
  return *reading.domains[kGpu];
}

void pause(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

constexpr const char kFirst[] = "0000:01:00.0", kSecond[] = "0000:02:00.0";

Opened open_stub(const std::string& gpu = kFirst) { return open_nvml(HG_NVML_STUB, gpu); }

TEST_CASE("of two GPUs only the one in use is counted, by PCI id or UUID") {
  const Environment mode("HG_STUB_NVML", "counter");
  for (const auto& [gpu, joules] :
       {std::pair{kFirst, 50}, {kSecond, 20}, {"GPU-1", 50}, {"GPU-2", 20}}) {
    INFO(gpu);
    const Opened opened = open_stub(gpu);
    REQUIRE(opened.meter);
    CHECK(opened.candidate.reason == fmt::format("gpu {}: energy counter", gpu));
    CHECK(opened.meter->kind() == Kind::measured);
    CHECK(gpu_reading(*opened.meter).energy.value == 0);
    const Counted now = gpu_reading(*opened.meter);
    CHECK(now.energy.value == joules * 1'000'000);
    CHECK(now.low == now.energy);
    CHECK(now.high == now.energy);
    CHECK(opened.meter->faults() == 0);
    CHECK(opened.meter->reading_error(Domain::gpu).quantum_uj == 1000);
  }
}

TEST_CASE("no GPU is counted where none is in use, and an unknown one is refused") {
  const Environment mode("HG_STUB_NVML", "counter");
  const Candidate none = open_stub("").candidate;
  CHECK(none.verdict == Verdict::rejected);
  CHECK(none.reason == "not needed: no GPU is in use");
  const Opened unknown = open_stub("0000:09:00.0");
  CHECK_FALSE(unknown.meter);
  CHECK(unknown.candidate.reason == "gpu 0000:09:00.0: the driver does not know it: Not Found");
}

TEST_CASE("a GPU divided by MIG is refused, and another beside it is not") {
  const Environment mode("HG_STUB_NVML", "mig");
  const Opened divided = open_stub(kSecond);
  CHECK_FALSE(divided.meter);
  CHECK(divided.candidate.verdict == Verdict::rejected);
  CHECK(divided.candidate.reason ==
        "gpu 0000:02:00.0: divided by MIG, and NVML counts the whole of it alone");
  CHECK(divided.candidate.enable == "sudo nvidia-smi -i 0000:02:00.0 -mig 0");
  CHECK(open_stub(kFirst).meter);
}

TEST_CASE("what a GPU draws while others use it may be theirs") {
  const Environment mode("HG_STUB_NVML", "crowded");
  const Opened alone = open_stub(kFirst);
  gpu_reading(*alone.meter);
  CHECK(gpu_reading(*alone.meter).low.value == 50'000'000);
  CHECK(alone.meter->kind() == Kind::measured);

  const Opened opened = open_stub(kSecond);
  REQUIRE(opened.meter);
  Meter& meter = *opened.meter;
  CHECK(opened.candidate.reason == "gpu 0000:02:00.0: energy counter; shared with 1 other process");
  gpu_reading(meter);
  const Counted shared = gpu_reading(meter);
  CHECK(shared.energy.value == 20'000'000);
  CHECK(shared.low.value == 0);
  CHECK(meter.kind() == Kind::apportioned);
  CHECK(meter.kind_of(Domain::gpu) == Kind::apportioned);
  REQUIRE(meter.faults() == 1);
  CHECK(meter.fault_list()[0].kind == FaultKind::shared);
  CHECK(meter.fault_list()[0].zone == "gpu 0000:02:00.0");
  mode.set("counter");
  pause(1001);  // looks for them once a second
  const Counted left = gpu_reading(meter);
  CHECK(left.energy.value == 40'000'000);
  CHECK(left.low.value == 20'000'000);
  CHECK(meter.kind() == Kind::apportioned);  // of what it has counted
}

TEST_CASE("a GPU that only knows its power is integrated") {
  const Environment mode("HG_STUB_NVML", "power");
  const Opened opened = open_stub();
  REQUIRE(opened.meter);
  CHECK(opened.candidate.reason == "gpu 0000:01:00.0: power, the mean of 0.1 s, integrated");
  const Reading first = opened.meter->read();
  pause(20);
  const Reading last = opened.meter->read();
  const double expected = 120 * from_ns(last.time_ns - first.time_ns).value;
  const Counted& counted = *last.domains[kGpu];
  CHECK(to_joules(counted.energy).value == doctest::Approx(expected));
  CHECK(to_joules(counted.low).value == doctest::Approx(expected * 0.95));
  CHECK(to_joules(counted.high).value == doctest::Approx(expected * 1.05));
}

TEST_CASE("power that is the mean of a second says nothing of shorter times") {
  const Environment mode("HG_STUB_NVML", "mean");
  const Opened opened = open_stub();
  REQUIRE(opened.meter);
  CHECK(opened.candidate.reason == "gpu 0000:01:00.0: power, the mean of 1 s, integrated");
  CHECK(opened.meter->reading_error(Domain::gpu).update_period_s == 1);
  const Reading first = opened.meter->read();
  CHECK(first.as_of[kGpu].time_ns == first.time_ns);
  CHECK(first.as_of[kGpu].span_ns == 2'000'000'000);
  pause(10);
  const Reading soon = opened.meter->read();
  CHECK(soon.domains[kGpu]->energy > first.domains[kGpu]->energy);
  CHECK(soon.as_of[kGpu].time_ns == first.as_of[kGpu].time_ns);
  pause(1000);
  const Reading later = opened.meter->read();
  CHECK(later.as_of[kGpu].time_ns == later.time_ns);
}

TEST_CASE("each GPU is read by what it offers") {
  const Environment mode("HG_STUB_NVML", "mixed");
  CHECK(open_stub(kFirst).candidate.reason == "gpu 0000:01:00.0: energy counter");
  CHECK(open_stub(kSecond).candidate.reason ==
        "gpu 0000:02:00.0: power, the mean of 0.1 s, integrated");
}

TEST_CASE("a GPU that offers nothing is rejected") {
  const Environment mode("HG_STUB_NVML", "unsupported");
  const Opened opened = open_stub();
  CHECK_FALSE(opened.meter);
  CHECK(opened.candidate.verdict == Verdict::rejected);
  CHECK(opened.candidate.reason == "gpu 0000:01:00.0: Not Supported");
}

TEST_CASE("no driver and no library are told apart") {
  const Environment mode("HG_STUB_NVML", "gone");
  const Candidate gone = open_stub().candidate;
  CHECK(gone.verdict == Verdict::rejected);
  CHECK(gone.reason == "nvmlInit: Driver Not Loaded");
  CHECK(gone.enable == "sudo modprobe nvidia");
  const Candidate absent = open_nvml("/nowhere/libnvidia-ml.so.1", kFirst).candidate;
  CHECK(absent.verdict == Verdict::absent);
  CHECK(absent.enable != "");
  CHECK(open_nvml("libc.so.6", kFirst).candidate.reason == "libc.so.6: no function nvmlInit_v2");
}

TEST_CASE("a driver that goes away and comes back anew is followed") {
  const Environment mode("HG_STUB_NVML", "counter");
  const Opened opened = open_stub();
  REQUIRE(opened.meter);
  Meter& meter = *opened.meter;
  gpu_reading(meter);
  gpu_reading(meter);
  mode.set("gone");
  const Counted gone = gpu_reading(meter);
  CHECK(gone.energy.value == 50'000'000);
  pause(5);
  CHECK(gpu_reading(meter).high > gone.energy);
  CHECK(meter.faults() == 2);
  mode.set("reloaded");
  pause(1001);
  const Counted first = gpu_reading(meter);  // counters start at 0 again, which looks suspicious
  CHECK(first.energy.value == 50'000'000);
  const Counted back = gpu_reading(meter);
  CHECK(back.energy.value == 100'000'000);
  CHECK(back.low == back.energy);
  CHECK(back.high > back.energy);
  CHECK(meter.fault_list().back().kind == FaultKind::reset);
}

TEST_CASE("a GPU draws at most what its own limit allows") {
  const Environment mode("HG_STUB_NVML", "counter");
  const auto most = [](const char* gpu) {
    const Opened opened = open_stub(gpu);
    REQUIRE(opened.meter);
    return opened.meter->max_power(Domain::gpu).value;
  };
  CHECK(most(kFirst) == 3000);  // not told
  for (const char* limited : {"limited", "limited-power"}) {
    mode.set(limited);
    CHECK(most(kFirst) == doctest::Approx(1.2 * 300));
    CHECK(most(kSecond) == doctest::Approx(1.2 * 200));
  }
}

TEST_CASE("a GPU whose counter stands still is a fault") {
  const Environment mode("HG_STUB_NVML", "still");
  const Opened opened = open_stub();
  REQUIRE(opened.meter);
  const Reading first = opened.meter->read();
  pause(1001);  // longer than a counter may stand still
  const Reading last = opened.meter->read();
  const Counted& counted = *last.domains[kGpu];
  CHECK(counted.energy.value == 0);
  const double most = 3000 * from_ns(last.time_ns - first.time_ns).value;
  CHECK(to_joules(counted.high).value == doctest::Approx(most));
  REQUIRE(opened.meter->faults() == 1);
  CHECK(opened.meter->fault_list()[0].kind == FaultKind::stall);
  CHECK(opened.meter->fault_list()[0].zone == "gpu 0000:01:00.0");
}

TEST_CASE("a counter shows what was drawn until it last moved") {
  ChannelMeter meter("slow");
  std::uint64_t uj = 0;
  meter.add(Domain::gpu, CounterSpec{"gpu", 0, Watts{300}, Seconds{0.2}, {}, {1000, 0.1}},
            [&](std::int64_t now) {
              return RawRead{now, ReadStatus::good, uj};
            });
  constexpr std::int64_t kMs = 1'000'000;
  const auto as_of = [&](std::int64_t ms) { return meter.read_at(ms * kMs).as_of[kGpu]; };
  CHECK(as_of(1000).time_ns == 950 * kMs);  // moved at most a period ago
  CHECK(as_of(1020).time_ns == 950 * kMs);
  uj = 10'000;
  const AsOf moved = as_of(1040);  // between two reads
  CHECK(moved.time_ns == 1030 * kMs);
  CHECK(moved.span_ns == 20 * kMs);
  uj = 20'000;
  CHECK(as_of(2000).time_ns == 1950 * kMs);  // long not read, but it moves every 100 ms
  CHECK(as_of(2010).span_ns == 100 * kMs);
}

TEST_CASE("power across failed reads lies between nothing and all the board can draw") {
  FaultLog log;
  PowerIntegral integral({"gpu", Watts{300}, 0.05}, log);
  const auto at = [](double s) { return static_cast<std::int64_t>(s * 1e9); };
  integral.update({at(0), Watts{100}});
  const Counted ramp = integral.update({at(1), Watts{200}});
  CHECK(to_joules(ramp.energy).value == doctest::Approx(150));
  CHECK(to_joules(ramp.low).value == doctest::Approx(95));
  CHECK(to_joules(ramp.high).value == doctest::Approx(210));
  CHECK(to_joules(integral.update({at(2), std::nullopt}).high).value == doctest::Approx(510));
  integral.update({at(3), Watts{5000}});
  const Counted back = integral.update({at(4), Watts{200}});
  CHECK(to_joules(back.energy).value == doctest::Approx(750));
  CHECK(to_joules(back.low).value == doctest::Approx(95));
  CHECK(to_joules(back.high).value == doctest::Approx(210 + 900));
  CHECK(log.count(FaultKind::failed_read) == 1);
  CHECK(log.count(FaultKind::garbage) == 1);
}

}  // namespace nvml_test
