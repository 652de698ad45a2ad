// NVML through a stand-in library: counter, power alone, not supported, driver gone.
#include "energy/meters/nvml.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "energy/meters/power_integral.h"
#include "tests/support/environment.h"

namespace nvml_test {

using namespace hg::energy;
using hg::testing::Environment;

constexpr std::size_t kGpu = static_cast<std::size_t>(Domain::gpu);

Counted gpu(Meter& meter) {
  const Reading reading = meter.read();
  REQUIRE(reading.domains[kGpu]);
  CHECK_FALSE(reading.domains[0]);
  CHECK_FALSE(reading.domains[1]);
  return *reading.domains[kGpu];
}

void pause(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

TEST_CASE("GPUs that count energy are summed") {
  const Environment mode("HG_STUB_NVML", "counter");
  const Opened opened = open_nvml(HG_NVML_STUB);
  REQUIRE(opened.meter);
  CHECK(opened.candidate.reason == "gpu 0: energy counter, gpu 1: energy counter");
  CHECK(opened.meter->kind() == Kind::measured);
  CHECK(gpu(*opened.meter).energy.value == 0);
  const Counted now = gpu(*opened.meter);
  CHECK(now.energy.value == 100'000'000);
  CHECK(now.high == now.energy);
  CHECK(opened.meter->faults() == 0);
}

TEST_CASE("GPUs that only know their power are integrated") {
  const Environment mode("HG_STUB_NVML", "power");
  const Opened opened = open_nvml(HG_NVML_STUB);
  REQUIRE(opened.meter);
  CHECK(opened.candidate.reason == "gpu 0: power, integrated, gpu 1: power, integrated");
  const Reading first = opened.meter->read();
  pause(20);
  const Reading last = opened.meter->read();
  const double expected = 240 * from_ns(last.time_ns - first.time_ns).value;
  const Counted& counted = *last.domains[kGpu];
  CHECK(to_joules(counted.energy).value == doctest::Approx(expected));
  CHECK(to_joules(counted.low).value == doctest::Approx(expected * 0.95));
  CHECK(to_joules(counted.high).value == doctest::Approx(expected * 1.05));
}

TEST_CASE("each GPU is read by what it offers") {
  const Environment mode("HG_STUB_NVML", "mixed");
  const Opened opened = open_nvml(HG_NVML_STUB);
  REQUIRE(opened.meter);
  CHECK(opened.candidate.reason == "gpu 0: energy counter, gpu 1: power, integrated");
}

TEST_CASE("GPUs that offer nothing are rejected") {
  const Environment mode("HG_STUB_NVML", "unsupported");
  const Opened opened = open_nvml(HG_NVML_STUB);
  CHECK_FALSE(opened.meter);
  CHECK(opened.candidate.verdict == Verdict::rejected);
  CHECK(opened.candidate.reason == "gpu 0: Not Supported, gpu 1: Not Supported");
}

TEST_CASE("no driver and no GPU and no library are told apart") {
  const Environment mode("HG_STUB_NVML", "gone");
  const Candidate gone = open_nvml(HG_NVML_STUB).candidate;
  CHECK(gone.verdict == Verdict::rejected);
  CHECK(gone.reason == "nvmlInit: Driver Not Loaded");
  CHECK(gone.enable == "sudo modprobe nvidia");
  mode.set("none");
  CHECK(open_nvml(HG_NVML_STUB).candidate.verdict == Verdict::absent);
  const Candidate absent = open_nvml("/nowhere/libnvidia-ml.so.1").candidate;
  CHECK(absent.verdict == Verdict::absent);
  CHECK(absent.enable != "");
  CHECK(open_nvml("libc.so.6").candidate.reason == "libc.so.6: no function nvmlInit_v2");
}

TEST_CASE("a driver that goes away and comes back anew is followed") {
  const Environment mode("HG_STUB_NVML", "counter");
  const Opened opened = open_nvml(HG_NVML_STUB);
  REQUIRE(opened.meter);
  Meter& meter = *opened.meter;
  gpu(meter);
  gpu(meter);
  mode.set("gone");
  const Counted gone = gpu(meter);
  CHECK(gone.energy.value == 100'000'000);
  pause(5);
  CHECK(gpu(meter).high > gone.energy);
  CHECK(meter.faults() == 4);
  mode.set("reloaded");
  pause(1001);
  const Counted first = gpu(meter);  // counters start at 0 again, which looks suspicious
  CHECK(first.energy.value == 100'000'000);
  const Counted back = gpu(meter);
  CHECK(back.energy.value == 200'000'000);
  CHECK(back.low == back.energy);
  CHECK(back.high > back.energy);
  CHECK(meter.fault_list().back().kind == FaultKind::reset);
}

TEST_CASE("a GPU draws at most what its own limit allows") {
  const Environment mode("HG_STUB_NVML", "counter");
  CHECK(open_nvml(HG_NVML_STUB).meter->max_power(Domain::gpu).value == 2 * 3000);  // not told
  mode.set("limited");
  const Opened opened = open_nvml(HG_NVML_STUB);
  REQUIRE(opened.meter);
  CHECK(opened.meter->max_power(Domain::gpu).value == doctest::Approx(1.2 * (300 + 200)));
  mode.set("limited-power");
  CHECK(open_nvml(HG_NVML_STUB).meter->max_power(Domain::gpu).value ==
        doctest::Approx(1.2 * (300 + 200)));
}

TEST_CASE("one of two GPUs whose counter stands still is a fault") {
  const Environment mode("HG_STUB_NVML", "half-still");
  const Opened opened = open_nvml(HG_NVML_STUB);
  REQUIRE(opened.meter);
  const Reading first = opened.meter->read();
  pause(1001);  // longer than a counter may stand still
  const Reading last = opened.meter->read();
  const Counted& counted = *last.domains[kGpu];
  CHECK(counted.energy.value == 50'000'000);
  const double most = 3000 * from_ns(last.time_ns - first.time_ns).value;
  CHECK(to_joules(counted.high).value == doctest::Approx(50 + most));
  REQUIRE(opened.meter->faults() == 1);
  CHECK(opened.meter->fault_list()[0].kind == FaultKind::stall);
  CHECK(opened.meter->fault_list()[0].zone == "gpu 1");
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
