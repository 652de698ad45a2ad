// The powercap reader on files that move, vanish, come back and hold anything at all.
#include "energy/meters/rapl_powercap.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/energy/meters/powercap_tree.h"
#include "tests/support/mutate.h"

namespace powercap_test {

using namespace hg::energy;
using hg::testing::PowercapTree;

double joules(const Reading& reading, Domain domain) {
  const auto& counted = reading.domains[static_cast<std::size_t>(domain)];
  REQUIRE(counted);
  return to_joules(counted->energy).value;
}

void pause(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// While alive, the process has the rights of user nobody; without root it has no more anyway.
class AsNobody {
 public:
  AsNobody() { dropped_ = geteuid() == 0 && seteuid(65534) == 0; }
  ~AsNobody() {
    if (dropped_ && seteuid(0) != 0) std::abort();
  }

 private:
  bool dropped_;
};

TEST_CASE("the meter sums packages and keeps dram apart") {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0", "1000000\n")
      .zone("intel-rapl:0:0", "core", "1000000\n")
      .zone("intel-rapl:0:1", "dram", "1000000\n")
      .zone("intel-rapl:1", "package-1", "1000000\n")
      .zone("intel-rapl:2", "psys", "1000000\n");
  const Opened opened = open_powercap(tree.root() + "/");
  REQUIRE(opened.meter);
  CHECK(opened.candidate.verdict == Verdict::used);
  CHECK(opened.meter->kind() == Kind::measured);
  CHECK(joules(opened.meter->read(), Domain::package) == 0);
  for (const char* id : {"intel-rapl:0", "intel-rapl:0:0", "intel-rapl:1", "intel-rapl:2"})
    tree.set(id, 3'000'000);
  tree.set("intel-rapl:0:1", 1'500'000);
  const Reading now = opened.meter->read();
  CHECK(joules(now, Domain::package) == 4);
  CHECK(joules(now, Domain::dram) == 0.5);
  CHECK_FALSE(now.domains[static_cast<std::size_t>(Domain::gpu)]);
  CHECK(opened.meter->faults() == 0);
}

TEST_CASE("files that are replaced or come back are followed") {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0", "1000000\n");
  const Opened opened = open_powercap(tree.root());
  REQUIRE(opened.meter);
  opened.meter->read();
  const std::string file = tree.file("intel-rapl:0", "energy_uj");
  hg::testing::put(file + ".new", "2000000\n");
  std::filesystem::rename(file + ".new", file);
  pause(25);
  CHECK(joules(opened.meter->read(), Domain::package) == 1);

  const std::string zone = tree.root() + "/intel-rapl:0", away = tree.root() + "/away";
  std::filesystem::rename(zone, away);
  pause(25);
  const Reading gone = opened.meter->read();
  CHECK(opened.meter->faults() == 1);
  CHECK(joules(gone, Domain::package) == 1);
  CHECK(gone.domains[0]->high > gone.domains[0]->energy);
  CHECK(opened.meter->fault_list().at(0).zone == "package-0");

  std::filesystem::rename(away, zone);
  tree.set("intel-rapl:0", 7'000'000);
  pause(25);
  const Reading back = opened.meter->read();
  CHECK(joules(back, Domain::package) == 6);
  CHECK(back.domains[0]->high == back.domains[0]->energy);
}

TEST_CASE("a zone that comes back under another name is not read") {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0", "1000000\n");
  const Opened opened = open_powercap(tree.root());
  opened.meter->read();
  tree.zone("intel-rapl:0", "psys", "1000000\n");
  pause(25);
  opened.meter->read();
  CHECK(opened.meter->faults() == 1);
}

TEST_CASE("what cannot be read is rejected with the command that helps") {
  PowercapTree tree;
  std::filesystem::permissions(tree.root(), std::filesystem::perms(0755));
  tree.zone("intel-rapl:0", "package-0").zone("intel-rapl:0:0", "dram");
  for (const char* id : {"intel-rapl:0", "intel-rapl:0:0"})
    std::filesystem::permissions(tree.file(id, "energy_uj"), std::filesystem::perms(0));
  const AsNobody nobody;
  const Opened opened = open_powercap(tree.root());
  CHECK_FALSE(opened.meter);
  CHECK(opened.candidate.verdict == Verdict::rejected);
  CHECK(opened.candidate.reason.find("Permission denied") != std::string::npos);
  const std::string files = tree.root() + "/*/energy_uj", &enable = opened.candidate.enable;
  CHECK(
      enable.starts_with("sudo chgrp $(id -gn) " + files + " && sudo chmod g+r " + files + "  #"));
  CHECK(enable.find("secrets of others") != std::string::npos);  // what a+r would give up
}

TEST_CASE("part of a domain is none of it") {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0")
      .zone("intel-rapl:0:0", "dram", "5\n")
      .zone("intel-rapl:1", "package-1")
      .zone("intel-rapl:1:0", "dram", "nothing\n");
  const Opened without_dram = open_powercap(tree.root());
  REQUIRE(without_dram.meter);
  CHECK_FALSE(without_dram.meter->read().domains[static_cast<std::size_t>(Domain::dram)]);
  CHECK(without_dram.candidate.reason.find("package-1 dram (") != std::string::npos);
  hg::testing::put(tree.file("intel-rapl:1", "energy_uj"), "-12\n");
  const Opened broken = open_powercap(tree.root());
  CHECK_FALSE(broken.meter);
  CHECK(broken.candidate.reason.find("holds '-12', expected microjoules") != std::string::npos);
}

TEST_CASE("absent trees say which driver to load") {
  PowercapTree tree;
  CHECK(open_powercap(tree.root()).candidate.verdict == Verdict::absent);
  CHECK(open_powercap("/nowhere").candidate.enable == "sudo modprobe intel_rapl_msr");
  tree.zone("intel-rapl:0", "psys");
  CHECK(open_powercap(tree.root()).candidate.verdict == Verdict::rejected);
}

TEST_CASE("counters mutated ten thousand times invent no energy") {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0", "200000000000\n").zone("intel-rapl:0:0", "dram", "77\n");
  const Opened opened = open_powercap(tree.root());
  REQUIRE(opened.meter);
  Reading last = opened.meter->read();
  const std::int64_t start = last.time_ns;
  hg::RandomStream random(5, "powercap");
  for (int i = 0; i < 10000; ++i) {
    const bool package = random.below(2) != 0;
    tree.overwrite(package ? "intel-rapl:0" : "intel-rapl:0:0", "energy_uj",
                   hg::testing::mutate(package ? "200000000000\n" : "77\n", random));
    const Reading now = opened.meter->read();
    for (std::size_t d = 0; d < 2; ++d) REQUIRE(now.domains[d]->energy >= last.domains[d]->energy);
    last = now;
  }
  const double possible = 1000 * (from_ns(last.time_ns - start).value + 0.01);
  CHECK(joules(last, Domain::package) <= possible);
  CHECK(joules(last, Domain::dram) <= possible / 2);
  CHECK(opened.meter->faults() > 1000);
}

TEST_CASE("mutated trees open or are refused") {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0").zone("intel-rapl:1", "package-0-die-1");
  hg::RandomStream random(6, "trees");
  const std::pair<const char*, std::string> files[] = {{"name", "package-0\n"},
                                                       {"energy_uj", "1000000\n"},
                                                       {"max_energy_range_uj", "262143328850\n"}};
  int opened_trees = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto& [name, text] = files[random.below(3)];
    tree.overwrite("intel-rapl:0", name, hg::testing::mutate(text, random));
    const Opened opened = open_powercap(tree.root());
    CHECK(opened.candidate.reason.find('\n') == std::string::npos);
    if (opened.meter) {
      ++opened_trees;
      opened.meter->read();
      const Reading now = opened.meter->read();
      for (const auto& domain : now.domains)
        if (domain) REQUIRE(domain->energy.value == 0);
    }
    tree.overwrite("intel-rapl:0", name, text);
  }
  CHECK(opened_trees > 500);
}

}  // namespace powercap_test
