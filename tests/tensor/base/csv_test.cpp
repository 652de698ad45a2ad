#include "tensor/base/csv.h"

#include <doctest/doctest.h>

#include "tensor/base/usage_error.h"
#include "tests/support/temp_folder.h"

namespace hg::testing {
namespace {

struct Row {
  std::string name;
  std::int64_t count = 0;
  std::uint64_t large = 0;
  double exact = 0;
  std::optional<double> maybe;
};

CsvColumns columns_of_row(Row& r) {
  return {{"name", &r.name},
          {"count", &r.count},
          {"large", &r.large},
          {"exact", &r.exact},
          {"maybe", &r.maybe}};
}

std::string refusal(const std::string& text) {
  return message_of<UsageError>([&] { read_csv<Row>(text, "f.csv", columns_of_row); });
}

}  // namespace

TEST_CASE("CSV fields are quoted where they must be") {
  const CsvRow row = {"", "plain", "a,b", "say \"x\"", "two\nlines", ""};
  const std::string text = to_csv(row);
  CHECK(text == ",plain,\"a,b\",\"say \"\"x\"\"\",\"two\nlines\",\n");
  CHECK(parse_csv(text + "1\r\n\"2\"\r\n3", "f") == std::vector<CsvRow>{row, {"1"}, {"2"}, {"3"}});
  CHECK_THROWS_AS(parse_csv("\"a", "f"), UsageError);
  CHECK_THROWS_AS(parse_csv("\"a\"b\n", "f"), UsageError);
}

TEST_CASE("typed rows are read back as they were written") {
  const std::vector<Row> rows{{"a,b", -3, UINT64_MAX, 0.1, 1e-300}, {"", 0, 0, 1.0 / 3, {}}};
  const std::string text = write_csv(rows, columns_of_row);
  CHECK(text ==
        "name,count,large,exact,maybe\n"
        "\"a,b\",-3,18446744073709551615,0.1,1e-300\n"
        ",0,0,0.3333333333333333,\n");
  const std::vector<Row> back = read_csv<Row>(text, "f.csv", columns_of_row);
  REQUIRE(back.size() == 2);
  CHECK(write_csv(back, columns_of_row) == text);
  CHECK(back[1].exact == 1.0 / 3);
  CHECK_FALSE(back[1].maybe);
}

TEST_CASE("a text is never a live formula, and comes back as it was") {
  for (const std::string name : {"=1+1", "+x", "-x", "@x", "'x", "'=x", "''", "\tx", "x=1", "'"}) {
    Row row;
    row.name = name;
    const std::string text = write_csv<Row>({row}, columns_of_row);
    const char first = text[text.find('\n') + 1];
    CHECK(std::string_view("=+-@\t").find(first) == std::string_view::npos);
    CHECK(read_csv<Row>(text, "f.csv", columns_of_row).at(0).name == name);
  }
}

TEST_CASE("columns are found by name, and one that may be empty may be missing") {
  const auto rows =
      read_csv<Row>("other,exact,large,count,name\nx,2.5,1,7,n\n", "f.csv", columns_of_row);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].name == "n");
  CHECK(rows[0].count == 7);
  CHECK_FALSE(rows[0].maybe);
}

TEST_CASE("what is no such file is refused in one line") {
  const std::string good = "name,count,large,exact\n";
  CHECK(refusal("") == "f.csv: is empty, expected a line of columns");
  CHECK(refusal("name,count\n") ==
        "f.csv: has no column large, expected the columns name,count,large,exact,maybe");
  CHECK(refusal(good + "a,1,2") == "f.csv: line 2 has no end: the file is cut short");
  CHECK(refusal(good + "a,1,2\n") == "f.csv: line 2: expected 4 fields, got 3");
  CHECK(refusal(good + "a,x,2,3\n") == "f.csv: line 2: count is \"x\", expected a number");
  CHECK(refusal(good + "a,1,-2,3\n") == "f.csv: line 2: large is \"-2\", expected a number");
  CHECK(refusal(good + "a,1,2,inf\n") == "f.csv: line 2: exact is \"inf\", expected a number");
}

}  // namespace hg::testing
