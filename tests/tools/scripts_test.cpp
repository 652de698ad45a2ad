// The scripts that set up and build: how far they are, in a terminal and in a pipe.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "tests/support/environment.h"
#include "tests/support/program.h"
#include "tests/support/terminal.h"

namespace {

using namespace hg::testing;

const std::string kTools = std::string(HG_SOURCE_DIR) + "/tools";

void put_program(const std::string& path, const std::string& text) {
  put(path, "#!/bin/bash\n" + text);
  ::chmod(path.c_str(), 0755);
}

Arguments in_bash(const std::string& text) {
  return {"-c", ". " + kTools + "/progress.sh; " + text};
}

Outcome bash(const Arguments& arguments) {
  ChildOptions options;
  options.program = "/bin/bash";
  return hgtrain(arguments, options);
}

// A system on which nothing is installed yet, and apt-get works or fails.
struct BareSystem {
  explicit BareSystem(const std::string& apt_get) {
    put_program(folder / "dpkg-query", "exit 1\n");
    put_program(folder / "sudo", "exec \"$@\"\n");
    put_program(folder / "apt-get", apt_get);
    path.set(folder.path() + ":" + ::getenv("PATH"));
  }
  TempFolder folder;
  Environment path{"PATH", ::getenv("PATH")};
};

constexpr const char* kApt = R"script(
echo "debconf: delaying package configuration, since apt-utils is not installed" >&2
echo "Reading package lists..."
for p in 10.5 50 99; do echo "dlstatus:1:$p:Retrieving g++" >&3; done
for p in 20 60 100; do echo "pmstatus:g++:$p:Installing g++ (amd64)" >&3; done
)script";

}  // namespace

TEST_CASE("progress in a pipe is a line every ten percent, with the time left") {
  const Outcome done = bash(
      in_bash("for i in $(seq 300); do echo \"[$i/300] Building x.o\"; done | progress build 60"));
  INFO(done.out);
  CHECK(done.code == 0);
  CHECK(done.err == "");
  const std::vector<std::string> lines = lines_of(done.out);
  REQUIRE(lines.size() == 11);
  CHECK(lines[0] == "build: about 1:00 min");
  CHECK(lines[1].starts_with("build: 10 %, about "));
  CHECK(lines[10].starts_with("build: 100 %, about 0 s left"));
  CHECK(done.out.find("Building") == std::string::npos);
}

TEST_CASE("progress on a terminal is one line that changes and then goes") {
  Arguments command =
      in_bash("printf '[1/4] Building a.o\\n[2/4] Building b.o\\n' | progress build 60");
  command.insert(command.begin(), "/bin/bash");
  const TerminalOutcome done = on_terminal(command, 40);
  INFO(done.shown);
  CHECK(done.code == 0);
  CHECK(done.shown.find("\n") == std::string::npos);
  CHECK(done.shown.find("\r\x1b[Kbuild: 25 %, about ") != std::string::npos);
  CHECK(done.shown.ends_with("\r\x1b[K"));
  std::istringstream draws(done.shown);
  for (std::string draw; std::getline(draws, draw, '\r');) CHECK(draw.size() < 40 + 3);
}

TEST_CASE("progress reads make and ctest as well") {
  const Outcome make =
      bash(in_bash("printf '[ 12%%] Building\\n[ 50%%] Linking\\n' | progress m 9"));
  CHECK(make.out.find("m: 12 %, ") != std::string::npos);
  CHECK(make.out.find("m: 50 %, ") != std::string::npos);
  const Outcome tests = bash(
      in_bash("printf '  1/10 Test #7: a ...   Passed\\n 10/10 Test #9: b\\n' | progress t 9"));
  CHECK(tests.out.find("t: 10 %, ") != std::string::npos);
  CHECK(tests.out.find("t: 100 %, ") != std::string::npos);
}

TEST_CASE("a fault of the work is not hidden by its progress") {
  CHECK(bash({"-c", "set -o pipefail; . " + kTools + "/progress.sh; false | progress x 1"}).code ==
        1);
}

TEST_CASE("setting up shows packages and how far they are, and nothing of debconf") {
  const BareSystem system(kApt);
  const Outcome done = bash({kTools + "/setup.sh"});
  INFO(done.out);
  CHECK(done.code == 0);
  CHECK(done.err == "");
  CHECK(lines_of(done.out)[0].starts_with("Installing g++ cmake ninja-build"));
  CHECK(done.out.find("package lists: about 10 s") != std::string::npos);
  CHECK(done.out.find("packages: 33 %, about ") != std::string::npos);  // all are fetched
  CHECK(done.out.find("packages: 100 %, about 0 s left") != std::string::npos);
  CHECK(done.out.find("debconf") == std::string::npos);
  CHECK(done.out.find("status:") == std::string::npos);
}

TEST_CASE("the first line of setting up comes before any work is done") {
  const TempFolder folder;
  const std::string go = folder / "go";
  const BareSystem system("until [[ -e " + go + " ]]; do sleep 0.01; done\n");
  ChildOptions options;
  options.program = "/bin/bash";
  options.out = folder / "out";
  Child child({kTools + "/setup.sh"}, options);
  CHECK(child.await([&] {
    return contents_of(folder / "out").find("package lists: about") != std::string::npos;
  }));
  CHECK(contents_of(folder / "out").starts_with("Installing "));
  put(go, "");
  CHECK(child.wait().code == 0);
}

TEST_CASE("a failure of apt-get is shown with all it said") {
  const BareSystem system("echo 'E: Unable to locate package g++' >&2; exit 100\n");
  const Outcome done = bash({kTools + "/setup.sh"});
  CHECK(done.code == 1);
  CHECK(done.err.find("E: Unable to locate package g++") != std::string::npos);
  CHECK(done.err.find("tools/setup.sh: apt-get update failed") != std::string::npos);
}
