// RAPL by perf events, with a stand-in for the kernel: its files and its system calls.
#include "energy/meters/rapl_perf.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "tests/support/temp_folder.h"

namespace perf_test {

using namespace hg::energy;
using hg::testing::put;

constexpr double kScale = 2.3283064365386962890625e-10;  // 2^-32 J

class Sys {
 public:
  Sys() {
    std::filesystem::create_directories(pmu() + "/events");
    put(pmu() + "/type", "22\n");
    put(pmu() + "/cpumask", "0,18\n");
  }
  void event(const std::string& name, const std::string& config) {
    const std::string path = pmu() + "/events/" + name;
    put(path, config + "\n");
    put(path + ".scale", "2.3283064365386962890625e-10\n");
    put(path + ".unit", "Joules\n");
  }
  void package_of(int cpu, int package) {
    const std::string folder =
        folder_ / ("devices/system/cpu/cpu" + std::to_string(cpu) + "/topology");
    std::filesystem::create_directories(folder);
    put(folder + "/physical_package_id", std::to_string(package) + "\n");
  }
  std::string pmu() const { return folder_ / "bus/event_source/devices/power"; }
  const std::string& root() const { return folder_.path(); }

 private:
  hg::testing::TempFolder folder_;
};

class FakePerf final : public PerfSystem {
 public:
  struct Event {
    std::uint32_t type;
    std::uint64_t config;
    int cpu;
  };

  int open(std::uint32_t type, std::uint64_t config, int cpu) override {
    if (error != 0) return -error;
    events[next] = {type, config, cpu};
    return next++;
  }
  long read(int fd, void* to, std::size_t bytes) override {
    if (off_line.count(fd)) return 0;
    REQUIRE(bytes == sizeof(std::uint64_t));
    const auto count = static_cast<std::uint64_t>(joules[fd] / kScale);
    std::memcpy(to, &count, bytes);
    return static_cast<long>(bytes);
  }
  void close(int fd) override { REQUIRE(events.erase(fd) == 1); }

  int error = 0, next = 3;
  std::map<int, Event> events;
  std::map<int, double> joules;
  std::set<int> off_line;
};

double joules(const Counted& c) { return to_joules(c.energy).value; }

TEST_CASE("perf sums its packages and keeps ram apart") {
  Sys sys;
  sys.event("energy-pkg", "event=0x02");
  sys.event("energy-ram", "event=0x03");
  sys.event("energy-cores", "event=0x01");
  sys.event("energy-psys", "event=0x05");
  FakePerf perf;
  {
    const Opened opened = open_perf(sys.root(), {}, perf);
    REQUIRE(opened.meter);
    CHECK(opened.candidate.reason == "energy-pkg, energy-ram on cpu 0, 18");
    REQUIRE(perf.events.size() == 4);
    CHECK(perf.events[3].type == 22);
    CHECK(perf.events[3].config == 2);
    CHECK(perf.events[4].cpu == 18);
    CHECK(perf.events[6].config == 3);
    opened.meter->read();
    perf.joules = {{3, 1.5}, {4, 2.25}, {5, 0.5}, {6, 0.25}};
    const Reading now = opened.meter->read();
    CHECK(joules(*now.domains[0]) == doctest::Approx(3.75));
    CHECK(joules(*now.domains[1]) == doctest::Approx(0.75));
    CHECK(now.domains[0]->high == now.domains[0]->energy);

    perf.off_line = {3};
    CHECK(joules(*opened.meter->read().domains[0]) == doctest::Approx(3.75));
    CHECK(opened.meter->faults() == 1);
    perf.off_line.clear();
    perf.joules[3] = 2;
    CHECK(joules(*opened.meter->read().domains[0]) == doctest::Approx(4.25));
  }
  CHECK(perf.events.empty());  // all closed
}

TEST_CASE("a package whose counter stands still is a fault by perf, too") {
  Sys sys;
  sys.event("energy-pkg", "event=0x02");
  FakePerf perf;
  const Opened opened = open_perf(sys.root(), {}, perf);
  REQUIRE(opened.meter);
  opened.meter->read();
  std::this_thread::sleep_for(std::chrono::milliseconds(1001));
  perf.joules = {{3, 1.5}};  // that of cpu 18 stays
  const Reading now = opened.meter->read();
  CHECK(joules(*now.domains[0]) == doctest::Approx(1.5));
  CHECK(now.domains[0]->high > now.domains[0]->energy);
  REQUIRE(opened.meter->faults() == 1);
  CHECK(opened.meter->fault_list()[0].kind == FaultKind::stall);
  CHECK(opened.meter->fault_list()[0].zone == "energy-pkg cpu 18");
}

TEST_CASE("AMD's dies share their package's counter") {
  Sys sys;
  sys.event("energy-pkg", "event=2");
  put(sys.pmu() + "/cpumask", "0-3\n");
  for (int cpu = 0; cpu < 4; ++cpu) sys.package_of(cpu, cpu / 2);
  FakePerf perf;
  CpuInfo amd;
  amd.vendor = "AuthenticAMD";
  CHECK(open_perf(sys.root(), amd, perf).candidate.reason == "energy-pkg on cpu 0, 2");
  CpuInfo intel;
  intel.vendor = "GenuineIntel";
  CHECK(open_perf(sys.root(), intel, perf).candidate.reason == "energy-pkg on cpu 0, 1, 2, 3");
}

TEST_CASE("perf that is not allowed names the setting") {
  Sys sys;
  sys.event("energy-pkg", "event=0x02");
  FakePerf perf;
  for (const int error : {EACCES, EPERM}) {
    perf.error = error;
    const Candidate c = open_perf(sys.root(), {}, perf).candidate;
    CHECK(c.verdict == Verdict::rejected);
    CHECK(c.enable.starts_with("sudo sysctl kernel.perf_event_paranoid=0  # for all users"));
    CHECK(c.enable.find("secrets of others") != std::string::npos);
  }
  perf.error = EINVAL;
  CHECK(open_perf(sys.root(), {}, perf).candidate.enable == "");
}

TEST_CASE("psys alone is no meter") {
  Sys sys;
  sys.event("energy-psys", "event=0x05");
  FakePerf perf;
  const Candidate c = open_perf(sys.root(), {}, perf).candidate;
  CHECK(c.verdict == Verdict::rejected);
  CHECK(c.reason.starts_with("energy-psys alone"));
  CHECK(perf.next == 3);  // nothing was opened
}

TEST_CASE("descriptions that make no sense are rejected") {
  FakePerf perf;
  CHECK(open_perf("/nowhere", {}, perf).candidate.verdict == Verdict::absent);
  for (const auto& [file, text] :
       {std::pair("events/energy-pkg", "umask=2"), std::pair("events/energy-pkg", "event=0xzz"),
        std::pair("events/energy-pkg.unit", "Watts"), std::pair("events/energy-pkg.scale", "-1"),
        std::pair("events/energy-pkg.scale", "nan"), std::pair("cpumask", "0-"),
        std::pair("cpumask", "5-2"), std::pair("cpumask", "0-99999999999"),
        std::pair("cpumask", "")}) {
    Sys sys;
    sys.event("energy-pkg", "event=0x02");
    put(sys.pmu() + "/" + file, text);
    INFO(file << " " << text);
    CHECK(open_perf(sys.root(), {}, perf).candidate.verdict == Verdict::rejected);
  }
}

}  // namespace perf_test
