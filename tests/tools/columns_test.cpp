// hgprof's tables on a terminal.
#include "tensor/base/columns.h"

#include <doctest/doctest.h>

#include "tests/support/program.h"
#include "tests/support/terminal.h"

using namespace hg;
using namespace hg::testing;

namespace {

TerminalOutcome hgprof_on_terminal(const Arguments& arguments) {
  const auto build = std::filesystem::path(hgtrain_path()).parent_path().parent_path();
  return on_terminal(Arguments{(build / "tools/hgprof").string()} + arguments, 80);
}

void check_fits(const TerminalOutcome& done) {
  CHECK(done.code == 0);
  CHECK(done.lines.size() > 3);
  for (const std::string& line : done.lines) {
    INFO(line);
    CHECK(width_of(line) <= 80);
  }
}

}  // namespace

TEST_CASE("hgprof's tables fit a terminal of 80 columns") {
  const Arguments profile = Arguments{"shapes", "--steps", "1"} + tiny_model();
  check_fits(hgprof_on_terminal(profile));
  check_fits(hgprof_on_terminal(profile + Arguments{"--by", "layer"}));
  check_fits(hgprof_on_terminal({"ops", "--filter", "softmax"}));
  check_fits(hgprof_on_terminal({"attention", "--lengths", "16,32", "--variants",
                                 "softmax,linformer:rows=4", "--rounds", "1", "--dim", "8"}));
  const TempFolder folder;
  for (const char* name : {"a", "b"}) put(folder / name, hgprof(profile + Arguments{"--json"}).out);
  check_fits(hgprof_on_terminal({"diff", folder / "a", folder / "b"}));
}
