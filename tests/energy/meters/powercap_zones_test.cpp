// Which zones of a tree count, for the shapes that machines have.
#include "energy/meters/powercap_zones.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/energy/meters/powercap_tree.h"

namespace powercap_zones_test {

using hg::energy::Domain;
using hg::energy::find_powercap_zones;
using hg::testing::PowercapTree;

// "intel-rapl:0 package-0, intel-rapl:0:1 package-0 dram", sorted
std::string counted(const PowercapTree& tree) {
  std::vector<std::string> lines;
  for (const auto& zone : find_powercap_zones(tree.root()).counted) {
    CHECK((zone.domain == Domain::dram) == zone.label.ends_with("dram"));
    lines.push_back(std::filesystem::path(zone.folder).filename().string() + " " + zone.label);
  }
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : ", ") + line;
  return text;
}

bool leaves_out(const PowercapTree& tree, const std::string& what) {
  const auto left_out = find_powercap_zones(tree.root()).left_out;
  return std::any_of(left_out.begin(), left_out.end(),
                     [&](const std::string& line) { return line.starts_with(what); });
}

TEST_CASE("tree 1: client with psys") {
  PowercapTree tree;
  tree.control_type("intel-rapl")
      .zone("intel-rapl:0", "package-0")
      .zone("intel-rapl:0:0", "core")
      .zone("intel-rapl:0:1", "uncore")
      .zone("intel-rapl:1", "psys");
  CHECK(counted(tree) == "intel-rapl:0 package-0");
  CHECK(leaves_out(tree, "psys"));
  CHECK(leaves_out(tree, "core"));
}

TEST_CASE("tree 2: psys comes first and packages are numbered otherwise") {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "psys")
      .zone("intel-rapl:1", "package-0")
      .zone("intel-rapl:1:0", "core");
  CHECK(counted(tree) == "intel-rapl:1 package-0");
}

TEST_CASE("tree 3: two sockets with dram") {
  PowercapTree tree;
  for (const std::string s : {"0", "1"})
    tree.zone("intel-rapl:" + s, "package-" + s).zone("intel-rapl:" + s + ":0", "dram");
  CHECK(counted(tree) ==
        "intel-rapl:0 package-0, intel-rapl:0:0 package-0 dram, "
        "intel-rapl:1 package-1, intel-rapl:1:0 package-1 dram");
}

TEST_CASE("tree 4: MSR and MMIO twins") {
  PowercapTree tree;
  tree.control_type("intel-rapl-mmio")
      .control_type("intel-rapl")
      .zone("intel-rapl-mmio:0", "package-0")
      .zone("intel-rapl-mmio:0:0", "dram")
      .zone("intel-rapl:0", "package-0")
      .zone("intel-rapl:0:2", "dram");
  CHECK(counted(tree) == "intel-rapl:0 package-0, intel-rapl:0:2 package-0 dram");
  CHECK(leaves_out(tree, "package-0 in intel-rapl-mmio"));
}

TEST_CASE("tree 5: MMIO speaks where MSR is without a counter") {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0").zone("intel-rapl-mmio:0", "package-0");
  std::filesystem::remove(tree.file("intel-rapl:0", "energy_uj"));
  CHECK(counted(tree) == "intel-rapl-mmio:0 package-0");
}

TEST_CASE("tree 6: AMD dies that mirror their package's counter") {
  PowercapTree tree;
  for (const std::string s : {"0", "1"})
    for (const std::string d : {"0", "1"})
      tree.zone("intel-rapl:" + std::to_string(std::stoi(s) * 2 + std::stoi(d)),
                "package-" + s + "-die-" + d, s == "0" ? "777000\n" : "123456\n", "65532610987\n");
  CHECK(counted(tree) == "intel-rapl:0 package-0-die-0, intel-rapl:2 package-1-die-0");
  CHECK(leaves_out(tree, "package-0-die-1 (the same counter as package-0-die-0)"));
}

TEST_CASE("tree 7: dies with counters of their own") {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0-die-0", "500\n")
      .zone("intel-rapl:0:0", "dram", "30\n")
      .zone("intel-rapl:1", "package-0-die-1", "90000\n")
      .zone("intel-rapl:1:0", "dram", "7000\n");
  CHECK(counted(tree) ==
        "intel-rapl:0 package-0-die-0, intel-rapl:0:0 package-0-die-0 dram, "
        "intel-rapl:1 package-0-die-1, intel-rapl:1:0 package-0-die-1 dram");
}

TEST_CASE("tree 8: a package listed twice in one driver") {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0", "10\n").zone("intel-rapl:1", "package-0", "20\n");
  CHECK(counted(tree) == "intel-rapl:0 package-0");
}

TEST_CASE("tree 9: no max_energy_range_uj or one that makes no sense") {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0", "1000000\n", "")
      .zone("intel-rapl:1", "package-1", "1000000\n", "lots\n")
      .zone("intel-rapl:2", "package-2", "1000000\n", "999999\n")
      .zone("intel-rapl:3", "package-3");
  std::vector<std::uint64_t> ranges;
  for (const auto& zone : find_powercap_zones(tree.root()).counted)
    ranges.push_back(zone.largest_uj);
  CHECK(ranges == std::vector<std::uint64_t>{0, 0, 0, 262143328850});
}

TEST_CASE("tree 10: dram only") {
  PowercapTree tree;
  tree.zone("intel-rapl:0", "dram").zone("intel-rapl:1", "dram").zone("intel-rapl-mmio:0", "dram");
  CHECK(counted(tree) == "intel-rapl:0 dram, intel-rapl:1 dram");
}

TEST_CASE("tree 11: zones nested in each other as in /sys/devices") {
  PowercapTree tree;
  tree.control_type("intel-rapl")
      .zone("intel-rapl/intel-rapl:0", "package-0")
      .zone("intel-rapl/intel-rapl:0/intel-rapl:0:0", "core")
      .zone("intel-rapl/intel-rapl:0/intel-rapl:0:1", "dram");
  CHECK(counted(tree) == "intel-rapl:0 package-0, intel-rapl:0:1 package-0 dram");
  // The kernel's flat list links to the same folders, and each folder back to the list.
  std::filesystem::create_directory_symlink(tree.root() + "/intel-rapl/intel-rapl:0",
                                            tree.root() + "/intel-rapl:0");
  std::filesystem::create_directory_symlink(tree.root(),
                                            tree.root() + "/intel-rapl/intel-rapl:0/subsystem");
  CHECK(counted(tree) == "intel-rapl:0 package-0, intel-rapl:0:1 package-0 dram");
}

TEST_CASE("tree 12: nothing to count") {
  PowercapTree tree;
  CHECK(find_powercap_zones(tree.root()).exists);
  CHECK_FALSE(find_powercap_zones(tree.root() + "/none").exists);
  CHECK(counted(tree) == "");
  tree.zone("intel-rapl:0", "psys")
      .zone("intel-rapl:1", "core")
      .zone("intel-rapl:2", "package-x")
      .zone("intel-rapl:3", "package-")
      .zone("intel-rapl:4", "package-0-die-")
      .zone("dtpm:0", "cpu0-cpufreq");
  std::filesystem::create_directories(tree.root() + "/intel-rapl:5");
  CHECK(counted(tree) == "");
  CHECK(leaves_out(tree, "dtpm:0"));
  CHECK(leaves_out(tree, "intel-rapl:5"));
}

TEST_CASE("the first ten of many sockets come in order") {
  PowercapTree tree;
  for (int i = 11; i >= 0; --i)
    tree.zone("intel-rapl:" + std::to_string(i), "package-" + std::to_string(i));
  CHECK(find_powercap_zones(tree.root()).counted.size() == 12);
}

}  // namespace powercap_zones_test
