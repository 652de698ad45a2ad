// The choice between meters: one is trusted once it has moved, and every verdict is explained.
#include "energy/meters/choice.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "tests/energy/meters/powercap_tree.h"
#include "tests/support/environment.h"

namespace choice_test {

using namespace hg::energy;
using hg::testing::Environment;
using hg::testing::PowercapTree;

MeterSetup nothing() {
  MeterSetup setup;
  setup.sys = setup.powercap_root = setup.nvml_library = "/nowhere";
  setup.probe = Seconds{0.02};
  return setup;
}

const Candidate& of(const MeterChoice& choice, const std::string& name) {
  for (const Candidate& c : choice.candidates)
    if (c.name == name) return c;
  FAIL(name << " was not considered");
  return choice.candidates.front();
}

std::string verdicts(const MeterChoice& choice) {
  std::string text;
  for (const Candidate& c : choice.candidates) {
    CHECK(c.reason != "");
    text += c.name + " " + std::string(to_string(c.verdict)) + "\n";
  }
  return text;
}

bool has(const MeterChoice& choice, Domain domain) {
  return choice.meter->read().domains[static_cast<std::size_t>(domain)].has_value();
}

// Adds 10 mJ a millisecond to the counters, which is 10 W.
class Mover {
 public:
  Mover(PowercapTree& tree, std::vector<std::string> ids)
      : thread_([this, &tree, ids = std::move(ids)] {
          for (std::uint64_t uj = 1'000'000; !stop_; uj += 10'000) {
            for (const std::string& id : ids) tree.set(id, uj);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        }) {}
  ~Mover() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// Events that count up with each read, or never.
class FakePerf final : public PerfSystem {
 public:
  explicit FakePerf(bool moves) : moves_(moves) {}
  int open(std::uint32_t, std::uint64_t, int) override { return 1; }
  long read(int, void* to, std::size_t bytes) override {
    if (moves_) count_ += 1 << 20;
    *static_cast<std::uint64_t*>(to) = count_;
    return static_cast<long>(bytes);
  }
  void close(int) override {}

 private:
  bool moves_;
  std::uint64_t count_ = 0;
};

void make_pmu(const std::string& sys) {
  const std::string pmu = sys + "/bus/event_source/devices/power";
  std::filesystem::create_directories(pmu + "/events");
  hg::testing::put(pmu + "/type", "22\n");
  hg::testing::put(pmu + "/cpumask", "0\n");
  hg::testing::put(pmu + "/events/energy-pkg", "event=0x02\n");
  hg::testing::put(pmu + "/events/energy-pkg.scale", "2.3283064365386962890625e-10\n");
  hg::testing::put(pmu + "/events/energy-pkg.unit", "Joules\n");
}

TEST_CASE("without any meter the model is used and every candidate explained") {
  const MeterChoice choice = open_meter(nothing());
  CHECK(verdicts(choice) == "rapl-perf absent\nrapl-powercap absent\nmodel used\nnvml absent\n");
  CHECK(choice.meter->name() == "model");
  CHECK(choice.meter->kind() == Kind::modelled);
  CHECK(choice.meter->kind_of(Domain::gpu) == Kind::unavailable);
  CHECK(has(choice, Domain::package));
  CHECK(has(choice, Domain::dram));
  CHECK_FALSE(has(choice, Domain::gpu));
  for (const char* name : {"rapl-perf", "rapl-powercap", "nvml"})
    CHECK(of(choice, name).enable.starts_with("sudo "));
}

TEST_CASE("a counter that never moves is rejected") {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0", "0\n");
  MeterSetup setup = nothing();
  setup.powercap_root = tree.root();
  const MeterChoice choice = open_meter(setup);
  CHECK(of(choice, "rapl-powercap").verdict == Verdict::rejected);
  CHECK(of(choice, "rapl-powercap").reason.starts_with("did not move in"));
  CHECK(choice.meter->name() == "model");
}

TEST_CASE("a counter that moves is used and a domain that doesn't is left out") {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0").zone("intel-rapl:0:0", "dram", "0\n");
  const Mover mover(tree, {"intel-rapl:0"});
  MeterSetup setup = nothing();
  setup.powercap_root = tree.root();
  setup.probe = Seconds{0.5};
  const MeterChoice choice = open_meter(setup);
  CHECK(verdicts(choice) == "rapl-perf absent\nrapl-powercap used\nmodel rejected\nnvml absent\n");
  CHECK(choice.meter->name() == "rapl-powercap");
  CHECK(choice.meter->kind() == Kind::measured);
  CHECK(choice.meter->kind_of(Domain::dram) == Kind::unavailable);
  CHECK(has(choice, Domain::package));
  CHECK_FALSE(has(choice, Domain::dram));
  CHECK(of(choice, "rapl-powercap").reason.ends_with("did not move: dram"));
}

TEST_CASE("perf is preferred unless a tree was named") {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0");
  const Mover mover(tree, {"intel-rapl:0"});
  make_pmu(tree.root() + "/sys");
  FakePerf moving(true), still(false);
  MeterSetup setup = nothing();
  setup.sys = tree.root() + "/sys";
  setup.perf = &moving;
  setup.powercap_root = tree.root();
  setup.probe = Seconds{0.5};
  const MeterChoice preferred = open_meter(setup);
  CHECK(preferred.meter->name() == "rapl-perf");
  CHECK(of(preferred, "rapl-powercap").reason == "not needed: rapl-perf measures package");
  setup.powercap_first = true;
  CHECK(open_meter(setup).meter->name() == "rapl-powercap");
  setup.powercap_first = false;
  setup.perf = &still;
  CHECK(open_meter(setup).meter->name() == "rapl-powercap");
}

TEST_CASE("a measured GPU beside a modelled CPU is the sum of both and each says its kind") {
  const Environment mode("HG_STUB_NVML", "counter");
  MeterSetup setup = nothing();
  setup.nvml_library = HG_NVML_STUB;
  setup.gpu = "GPU-2";
  const MeterChoice choice = open_meter(setup);
  CHECK(choice.meter->name() == "model+nvml");
  CHECK(choice.meter->kind() == Kind::modelled);
  CHECK(choice.meter->kind_of(Domain::package) == Kind::modelled);
  CHECK(choice.meter->kind_of(Domain::gpu) == Kind::measured);
  for (const Domain d : {Domain::package, Domain::dram, Domain::gpu}) CHECK(has(choice, d));
  CHECK(choice.meter->reading_error(Domain::gpu).update_period_s == 0.1);
  CHECK(choice.meter->reading_error(Domain::package).update_period_s == 0);
  mode.set("still");
  CHECK(of(open_meter(setup), "nvml").verdict == Verdict::rejected);
}

TEST_CASE("the environment names sources") {
  const Environment powercap("HG_POWERCAP_ROOT", "/fake"), nvml("HG_NVML_LIB", "/fake.so"),
      gpu("HG_NVML_GPU", "GPU-7");
  const MeterSetup named = MeterSetup::from_environment();
  CHECK(named.powercap_root == "/fake");
  CHECK(named.powercap_first);
  CHECK(named.nvml_library == "/fake.so");
  CHECK(named.gpu == "GPU-7");
  gpu.set("");
  CHECK(MeterSetup::from_environment().gpu == "");  // nothing runs on one
  powercap.set("");
  CHECK(MeterSetup::from_environment().powercap_root == "/sys/class/powercap");
  CHECK_FALSE(MeterSetup::from_environment().powercap_first);
}

}  // namespace choice_test
