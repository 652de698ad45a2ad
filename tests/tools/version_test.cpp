// --version of both programs.
#include <doctest/doctest.h>

#include <sstream>

#include "tests/support/program.h"

using namespace hg::testing;

TEST_CASE("--version tells version, commit, build options, CPU features and CUDA") {
  for (const std::string program : {"hgtrain", "hgprof"}) {
    const Outcome done = program == "hgtrain" ? hgtrain({"--version"}) : hgprof({"--version"});
    INFO(done.out << done.err);
    CHECK(done.code == 0);
    const std::string start = program + " 0.2.0 (", end = "CUDA)\n";
    REQUIRE(done.out.starts_with(start));
    CHECK(done.out.ends_with(end));
    std::istringstream parts(done.out.substr(start.size()));
    std::vector<std::string> all;
    for (std::string part; std::getline(parts, part, ';');) all.push_back(part);
    REQUIRE(all.size() == 4);
    const std::string commit = all[0].substr(0, all[0].find('-'));
    CHECK(
        (commit == "unknown" || commit.find_first_not_of("0123456789abcdef") == std::string::npos));
    for (const std::string& part : all) CHECK(part.size() > 1);
  }
}
