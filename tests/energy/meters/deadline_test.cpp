// Meters that hang or are slow: nobody waits for them, and what they miss is said.
#include "energy/meters/deadline.h"

#include <doctest/doctest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "energy/meters/choice.h"
#include "tests/energy/meters/fake_meter.h"
#include "tests/support/environment.h"

namespace deadline_test {

using namespace hg::energy;
using hg::testing::Environment;

// A gate that meters wait at.
class Gate {
 public:
  void set(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    --waiting_;
    changed_.notify_all();
  }
  void await_none() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int waiting_ = 0;
};

// 7 J with each read; at most 100 W.
class GatedMeter final : public Meter {
 public:
  explicit GatedMeter(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
  std::string_view name() const override { return "gated"; }
  Kind kind() const override { return Kind::measured; }
  Watts max_power(Domain) const override { return {100}; }
  std::string source() const override { return "a gate"; }
  std::uint64_t faults() const override { return 0; }
  Reading read() override {
    Reading reading;
    reading.time_ns = hg::backend(hg::Device::cpu).timestamp_ns();
    gate_->pass();
    reading.domains[2] = hg::testing::counted(uj_ += 7'000'000);
    return reading;
  }

 private:
  std::shared_ptr<Gate> gate_;
  std::int64_t uj_ = -7'000'000;
};

Opened open_gated(const std::shared_ptr<Gate>& gate, Deadlines deadlines) {
  return open_with_deadline(
      "gated",
      [gate]() -> Opened {
        return {{"gated", Verdict::used, "moves", ""}, std::make_unique<GatedMeter>(gate)};
      },
      deadlines);
}

TEST_CASE("a meter that answers is read as without a deadline") {
  const auto gate = std::make_shared<Gate>();
  const Opened opened = open_gated(gate, {Seconds{600}, Seconds{600}});
  REQUIRE(opened.meter);
  CHECK(opened.candidate.reason == "moves");
  CHECK(opened.meter->name() == "gated");
  CHECK(opened.meter->kind() == Kind::measured);
  CHECK(opened.meter->source() == "a gate");
  for (int i = 1; i <= 3; ++i) {
    const Reading reading = opened.meter->read();
    REQUIRE(reading.domains[2]);
    CHECK(reading.domains[2]->energy.value == 7'000'000 * i);
    CHECK(reading.domains[2]->high == reading.domains[2]->energy);
    CHECK_FALSE(reading.domains[0]);
  }
  CHECK(opened.meter->faults() == 0);
}

TEST_CASE("a read that hangs is a fault and the last good reading counts until it comes back") {
  const auto gate = std::make_shared<Gate>();
  const Opened opened = open_gated(gate, {Seconds{600}, Seconds{0.001}});
  REQUIRE(opened.meter);
  Meter& meter = *opened.meter;
  gate->set(false);
  const Reading first = meter.read();
  CHECK(first.domains[2]->energy.value == 0);
  CHECK(first.domains[2]->low.value == 0);
  CHECK(first.domains[2]->high > first.domains[2]->energy);
  const std::uint64_t faults = meter.faults();
  CHECK(faults >= 1);
  CHECK(meter.fault_list().back().kind == FaultKind::late);
  Reading last = first;
  for (int i = 0; i < 1000; ++i) {  // nobody waits for it again
    const Reading now = meter.read();
    REQUIRE(now.time_ns >= last.time_ns);
    REQUIRE(now.domains[2]->energy.value == 0);
    last = now;
  }
  CHECK(meter.faults() == faults);  // one read, one fault
  gate->set(true);
  gate->await_none();
  while (last.domains[2]->energy.value == 0) {
    std::this_thread::yield();
    const Reading now = meter.read();
    REQUIRE(now.time_ns >= last.time_ns);
    last = now;
  }
  CHECK(last.domains[2]->low == last.domains[2]->energy);
}

TEST_CASE("a driver that hangs when it is opened is left alone") {
  const auto gate = std::make_shared<Gate>();
  gate->set(false);
  const Opened opened = open_gated(gate, {Seconds{0.01}, Seconds{0.01}});
  CHECK_FALSE(opened.meter);
  CHECK(opened.candidate.verdict == Verdict::rejected);
  CHECK(opened.candidate.reason == "did not answer within 0.01 s: its driver hangs");
  gate->set(true);
}

TEST_CASE("a meter that hangs can be given up") {
  const auto gate = std::make_shared<Gate>();
  {
    const Opened opened = open_gated(gate, {Seconds{600}, Seconds{0.001}});
    gate->set(false);
    opened.meter->read();
  }
  gate->set(true);  // its thread ends by itself
}

TEST_CASE("NVML that hangs is rejected and the rest goes on without it") {
  const Environment mode("HG_STUB_NVML", "hang");
  MeterSetup setup;
  setup.sys = setup.powercap_root = "/nowhere";
  setup.nvml_library = HG_NVML_STUB;
  setup.gpu = "GPU-1";
  setup.probe = Seconds{0.02};
  setup.deadlines = {Seconds{0.05}, Seconds{0.01}};
  const MeterChoice choice = open_meter(setup);
  CHECK(choice.meter->name() == "model");
  CHECK(choice.candidates.back().reason.find("its driver hangs") != std::string::npos);
}

}  // namespace deadline_test
