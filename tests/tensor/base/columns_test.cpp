#include "tensor/base/columns.h"

#include <doctest/doctest.h>

#include "tests/support/program.h"

using namespace hg;

namespace {

const std::string kEpoch =
    "epoch 1/10  loss 1.4637  test loss 1.1228  accuracy 0.5120  macro F1 0.4621  2413 images/s  "
    "9.94 J  913 ug CO2  1.8 s";

std::size_t widest_of(const std::string& text) {
  std::size_t widest = 0;
  for (const std::string& line : testing::lines_of(text)) widest = std::max(widest, width_of(line));
  return widest;
}

std::string without_breaks(std::string text) {
  for (std::size_t at; (at = text.find("\n    ")) != std::string::npos;) text.replace(at, 5, "  ");
  return text;
}

}  // namespace

TEST_CASE("a line of figures is cut between them, and stays whole where there is room") {
  CHECK(folded(kEpoch, 0) == kEpoch);
  CHECK(folded(kEpoch, kEpoch.size()) == kEpoch);
  CHECK(folded(kEpoch, 80) ==
        "epoch 1/10  loss 1.4637  test loss 1.1228  accuracy 0.5120  macro F1 0.4621\n"
        "    2413 images/s  9.94 J  913 ug CO2  1.8 s");
  for (std::size_t columns = 24; columns < kEpoch.size(); ++columns) {
    CHECK(widest_of(folded(kEpoch, columns)) <= columns);
    CHECK(without_breaks(folded(kEpoch, columns)) == kEpoch);
  }
}

TEST_CASE("text without figures is cut between words, and a word is never cut") {
  CHECK(folded("a line of some words", 12, 2) == "a line of\n  some words");
  CHECK(folded("runs/a-very-long-folder-name and more", 10, 2) ==
        "runs/a-very-long-folder-name\n  and more");
  CHECK(folded("loss 1  a note that is longer than the line  2 J", 20) ==
        "loss 1  a note that\n    is longer than\n    the line  2 J");
  CHECK(folded_lines("one two\nthree four\n", 6, 1) == "one\n two\nthree\n four\n");
  CHECK(folded("it took 12 s, 3.5 J", 10, 0) ==
        "it took\n12 s,\n3.5 J");  // units stay with numbers
  CHECK(folded("", 10) == "");
}

TEST_CASE("text hangs beside its name, or below a long one") {
  CHECK(hanging("--out DIR", "where the run goes", 24, 12) ==
        "--out DIR   where the\n            run goes");
  CHECK(hanging("--a-long-name", "what it is", 40, 12) == "--a-long-name\n            what it is");
  CHECK(hanging("a", "b c", 0, 4) == "a   b c");
}

TEST_CASE("characters are counted, not bytes") {
  CHECK(width_of("\u00e9t\u00e9") == 3);
  CHECK(folded("\u00e9t\u00e9 \u00e9t\u00e9", 7) == "\u00e9t\u00e9 \u00e9t\u00e9");
}

TEST_CASE("big numbers have separators") {
  CHECK(with_separators(std::int64_t{0}) == "0");
  CHECK(with_separators(std::int64_t{999}) == "999");
  CHECK(with_separators(std::int64_t{1000}) == "1,000");
  CHECK(with_separators(std::int64_t{-1234567}) == "-1,234,567");
  CHECK(with_separators(std::numeric_limits<std::int64_t>::min()) == "-9,223,372,036,854,775,808");
  CHECK(with_separators(std::uint64_t{18446744073709551615u}) == "18,446,744,073,709,551,615");
}

TEST_CASE("a table that is too wide goes on below, with its names again") {
  TextTable table({"arm", "runs", "energy", "seconds"});
  table.add({"baseline", "3", "1.5", "10"});
  table.add({"green", "3", "0.5", "9"});
  CHECK(table.text(0) ==
        "arm       runs  energy  seconds\n"
        "baseline     3     1.5       10\n"
        "green        3     0.5        9\n");
  CHECK(table.text(31) == table.text(0));
  CHECK(table.text(24) ==
        "arm       runs  energy\n"
        "baseline     3     1.5\n"
        "green        3     0.5\n"
        "\n"
        "arm       seconds\n"
        "baseline       10\n"
        "green           9\n");
  CHECK(table.text(1).find("seconds") != std::string::npos);  // one column at least
}

TEST_CASE("what is no terminal has no columns") {
  const testing::TempFolder folder;
  std::FILE* out = std::fopen((folder / "out").c_str(), "w");
  CHECK(columns_of(out) == 0);
  print_folded(out, kEpoch);
  std::fclose(out);
  CHECK(testing::contents_of(folder / "out") == kEpoch);
}
