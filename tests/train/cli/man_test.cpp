// The man pages.
#include <doctest/doctest.h>
#include <unistd.h>

#include "tests/train/cli/programs.h"

using namespace hg::testing;

TEST_CASE("man pages tell every command, option and exit code of --help") {
  for (const std::string program : {"hgtrain", "hgprof"}) {
    const Outcome page = run_program(program, {"man"});
    REQUIRE(page.code == 0);
    std::string text = page.out;
    for (std::size_t at; (at = text.find("\\-")) != std::string::npos;) text.erase(at, 1);
    for (const char* part : {".SH NAME", ".SH SYNOPSIS", ".SH EXIT STATUS", ".SH ENVIRONMENT"})
      CHECK(text.find(part) != std::string::npos);
    for (const std::string& command : commands_of(program)) {
      const std::size_t section = text.find(".SS " + program + " " + command);
      REQUIRE(section != std::string::npos);
      const std::string own = text.substr(section, text.find("\n.S", section + 1) - section);
      for (const std::string& line : lines_of(run_program(program, {command, "--help"}).out)) {
        const std::string option = line.substr(0, line.find(' ', 2));
        INFO(command << option);
        if (option.starts_with("  --"))
          CHECK(own.find("\\fB" + option.substr(2)) != std::string::npos);
        if (line.starts_with("  " + program)) CHECK(own.find(line.substr(2)) != std::string::npos);
      }
    }
  }
}

TEST_CASE("man pages are sound") {
  const TempFolder folder;
  for (const std::string program : {"hgtrain", "hgprof"}) {
    const std::string path = folder / (program + ".1");
    put(path, run_program(program, {"man"}).out);
    if (const std::string groff = tool("groff", "its warnings are not looked for"); groff != "") {
      const Outcome read = run_tool(groff, {"-man", "-Tutf8", "-ww", "-z", path});
      CHECK(read.code == 0);
      CHECK(read.err == "");
    }
    if (const std::string mandoc = tool("mandoc", "it does not lint the man pages"); mandoc != "") {
      const Outcome lint = run_tool(mandoc, {"-Tlint", "-Wwarning", path});
      // A page without a date is the same for every build.
      for (const std::string& line : lines_of(lint.out))
        CHECK_MESSAGE(line.find("missing date") != std::string::npos, line);
    }
  }
}
