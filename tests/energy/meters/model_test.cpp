// The model: its table, its shares of a socket and what it makes of CPU time and memory.
#include "energy/meters/model_meter.h"

#include <doctest/doctest.h>

#include <vector>

namespace model_test {

using namespace hg::energy;

CpuInfo cpu(const char* vendor, int family, int model, int threads, bool virtual_machine) {
  CpuInfo info;
  info.vendor = vendor;
  info.family = family;
  info.model = model;
  info.threads = info.allowed = threads;
  info.virtual_machine = virtual_machine;
  return info;
}

double full_watts(const LinearPower& p, int threads) {
  return p.idle.value + p.busy_thread.value * threads;
}

void check_order(const CpuPower& p, int threads) {
  for (const double busy : {0.0, 0.5, 1.0}) {
    const auto watts = [&](const LinearPower& l) {
      return full_watts(l, 1) - l.busy_thread.value + l.busy_thread.value * busy * threads;
    };
    CHECK(watts(p.low) < watts(p.likely));
    CHECK(watts(p.likely) < watts(p.high));
    CHECK(watts(p.low) > 0);
  }
}

TEST_CASE("a socket of its own draws its TDP at full load and a part of it at idle") {
  const CpuPower p = cpu_power(cpu("GenuineIntel", 6, 143, 112, false));
  CHECK(p.source == "CPU as Xeon Platinum 8480+: TDP 350 W for 112 threads, 112 here");
  CHECK(full_watts(p.likely, 112) == doctest::Approx(350));
  CHECK(p.likely.idle.value == doctest::Approx(87.5));
  check_order(p, 112);
}

TEST_CASE("the thread count tells processors of one model apart") {
  CHECK(full_watts(cpu_power(cpu("AuthenticAMD", 23, 1, 64, false)).likely, 64) ==
        doctest::Approx(180));
  CHECK(full_watts(cpu_power(cpu("AuthenticAMD", 23, 1, 16, false)).likely, 16) ==
        doctest::Approx(95));
}

TEST_CASE("two sockets draw twice and threads switched off change nothing") {
  CpuInfo two = cpu("AuthenticAMD", 25, 1, 256, false);
  two.packages = 2;
  CHECK(full_watts(cpu_power(two).likely, 256) == doctest::Approx(560));
  const CpuPower no_smt = cpu_power(cpu("GenuineIntel", 6, 207, 127, false));
  CHECK(full_watts(no_smt.likely, 127) == doctest::Approx(350));
}

TEST_CASE("a virtual machine has its share of the socket") {
  const CpuPower p = cpu_power(cpu("AuthenticAMD", 25, 1, 2, true));
  CHECK(full_watts(p.likely, 2) == doctest::Approx(2 * 280 / 128.0));
  CHECK(full_watts(p.high, 2) == doctest::Approx(2 * 190 / 32.0 * 1.2));
  CHECK(full_watts(p.low, 2) == doctest::Approx(2 * 280 / 128.0 * 0.5));
  check_order(p, 2);
}

TEST_CASE("a process kept to some threads answers for those") {
  CpuInfo some = cpu("AuthenticAMD", 25, 1, 128, false);
  some.allowed = 32;
  CHECK(full_watts(cpu_power(some).likely, 32) == doctest::Approx(70));
}

TEST_CASE("an unknown CPU gets the table's median and all of its spread") {
  const CpuPower p = cpu_power(cpu("", 0, 0, 8, false));
  CHECK(p.source.starts_with("CPU not in the table"));
  const double watts = full_watts(p.likely, 8) / 8;
  CHECK(watts > 2);
  CHECK(watts < 6);
  CHECK(full_watts(p.low, 8) / 8 < 1);
  CHECK(full_watts(p.high, 8) / 8 > 20);
  check_order(p, 8);
}

TEST_CASE("the model books CPU time with its share of idle power, and memory in use") {
  std::vector<Usage> script{{0, 5, 1, 2},
                            {1'000'000'000, 5.5, 1, 2},
                            {2'000'000'000, 7.5, 3, 2},
                            {3'000'000'000, 7.5, 3, 2, false}};
  std::size_t next = 0;
  const Opened opened =
      open_model(cpu("AuthenticAMD", 25, 1, 2, true), [&] { return script.at(next++); });
  REQUIRE(opened.meter);
  CHECK(opened.meter->kind() == Kind::modelled);
  CHECK(opened.meter->kind_of(Domain::dram) == Kind::modelled);
  const double full = 2 * 280 / 128.0;
  const Reading held_up = opened.meter->read();  // a quarter of what its two threads could do
  CHECK(to_joules(held_up.domains[0]->energy).value == doctest::Approx(full / 4).epsilon(1e-5));
  CHECK(to_joules(held_up.domains[1]->energy).value == doctest::Approx(0.375 / 4).epsilon(1e-5));
  const Reading busy = opened.meter->read();
  CHECK(to_joules(busy.domains[0]->energy).value == doctest::Approx(full * 1.25).epsilon(1e-5));
  CHECK(to_joules(busy.domains[1]->energy).value == doctest::Approx(0.375 * 2.25).epsilon(1e-5));
  for (std::size_t d = 0; d < 2; ++d) {
    CHECK(busy.domains[d]->low < busy.domains[d]->energy);
    CHECK(busy.domains[d]->energy < busy.domains[d]->high);
  }
  CHECK_FALSE(busy.domains[static_cast<std::size_t>(Domain::gpu)]);
  CHECK(opened.meter->faults() == 0);
  opened.meter->read();
  CHECK(opened.meter->faults() == 1);
}

TEST_CASE("the same work has the same modelled energy however long its neighbours hold it up") {
  for (const int slower : {1, 2, 7}) {
    std::vector<Usage> script;
    for (int i = 0; i <= 10; ++i) script.push_back({i * slower * 100'000'000ll, 0.2 * i, 2, 2});
    std::size_t next = 0;
    const Opened opened =
        open_model(cpu("AuthenticAMD", 25, 1, 2, true), [&] { return script.at(next++); });
    Reading last;
    while (next < script.size()) last = opened.meter->read();
    const double full = 2 * 280 / 128.0;  // W, on an idle machine for one second
    CHECK(to_joules(last.domains[0]->energy).value == doctest::Approx(full).epsilon(1e-5));
    CHECK(to_joules(last.domains[1]->energy).value == doctest::Approx(2 * 0.375).epsilon(1e-5));
  }
}

TEST_CASE("this process has used CPU time and memory") {
  const auto usage = process_usage();
  const Usage first = usage();
  volatile double x = 1;
  Usage last = first;
  while (last.cpu_s <= first.cpu_s) {
    for (int i = 0; i < 1'000'000; ++i) x = x * 1.0000001;
    last = usage();
  }
  CHECK(last.time_ns > first.time_ns);
  CHECK(last.complete);
  CHECK(last.memory_gb > 0.001);
  CHECK(last.memory_gb < 10);
}

TEST_CASE("the CPU of this machine says who it is") {
  const CpuInfo info = read_cpu_info("/sys");
  CHECK(info.threads >= 1);
  CHECK(info.allowed <= info.threads);
#ifdef __x86_64__
  CHECK(info.vendor.size() == 12);
  CHECK(info.family >= 6);
#endif
}

}  // namespace model_test
