// hgtrain meters on a tree of files that move while it runs.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/energy/meters/moving_tree.h"
#include "tests/support/environment.h"
#include "tests/support/program.h"

using namespace hg::testing;

TEST_CASE("meters watches a tree and says of each meter what became of it") {
  const MovingTree machine;
  const Environment root("HG_POWERCAP_ROOT", machine.root()), nvml("HG_NVML_LIB", "/nowhere");
  const Outcome outcome = hgtrain({"meters", "--watch", "0.5", "--json"});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const Json out = Json::parse(outcome.out);
  REQUIRE(out["meters"].size() == 4);
  for (const Json& meter : out["meters"]) {
    CHECK(meter.size() == 4);
    CHECK(meter["reason"] != "");
    CHECK(meter["enable"].is_string());
    const bool used = meter["name"] == "rapl-powercap";
    CHECK((meter["verdict"] == "used") == used);
  }
  const Json& watch = out["watch"];
  CHECK(watch.size() == 5);
  CHECK(watch["seconds"].get<double>() >= 0.5);
  CHECK(watch["energy_j"].size() == 2);  // no gpu, no psys
  const double package = watch["energy_j"]["package"], dram = watch["energy_j"]["dram"];
  CHECK(package > 0);
  CHECK(package <= 40 * machine.seconds());  // the wrap invented nothing
  CHECK(dram > 0);
  CHECK(dram <= 4 * machine.seconds());
  CHECK(watch["low_j"].get<double>() <= package + dram + 1e-9);
  CHECK(watch["high_j"].get<double>() >= package + dram - 1e-9);
  CHECK(watch["faults"].is_number_unsigned());
}

TEST_CASE("meters prints a table and leaves watch out unless asked") {
  const Environment root("HG_POWERCAP_ROOT", "/nowhere"), nvml("HG_NVML_LIB", "/nowhere");
  const Json out = Json::parse(hgtrain({"meters", "--json"}).out);
  CHECK_FALSE(out.contains("watch"));
  const Outcome table = hgtrain({"meters", "--watch", "0.05"});
  CHECK(table.code == 0);
  CHECK(table.out.starts_with("meter          verdict   why\n"));
  CHECK(table.out.find("to enable it: sudo modprobe intel_rapl_msr") != std::string::npos);
  CHECK(table.out.find("together") != std::string::npos);
}

TEST_CASE("a program with more rights than its user takes no sources from the environment") {
  if (::geteuid() != 0) return;
#ifdef __SANITIZE_ADDRESS__  // whose search for leaks fails in such a program
  return;
#endif
  const MovingTree machine;
  const TempFolder folder;
  const std::string program = folder / "hgtrain";
  std::filesystem::copy_file(hgtrain_path(), program);
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  REQUIRE(::chown(program.c_str(), 65534, 65534) == 0);
  REQUIRE(::chmod(program.c_str(), 04755) == 0);
  const Environment root("HG_POWERCAP_ROOT", machine.root()), nvml("HG_NVML_LIB", "/nowhere");
  ChildOptions options;
  options.program = program;
  const Outcome outcome = hgtrain({"meters", "--json"}, options);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(outcome.out.find(machine.root()) == std::string::npos);
  CHECK(outcome.out.find("/nowhere") == std::string::npos);
}

TEST_CASE("meters refuses a time that is none") {
  check_refused(hgtrain({"meters", "--watch", "-1"}), 2, {"--watch"});
  check_refused(hgtrain({"meters", "--watch", "soon"}), 2, {"--watch"});
}
