// CSV (RFC 4180): rows as text, and files of typed rows whose columns are told once, for reading
// and for writing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hg {

using CsvRow = std::vector<std::string>;

// All rows of the text, the header included. A fault is a UsageError that names the source.
std::vector<CsvRow> parse_csv(std::string_view text, const std::string& source);
std::string to_csv(const CsvRow& row);  // one line with its end
// A text from elsewhere as a field that no spreadsheet takes for a formula.
std::string csv_text(const std::string& text);

// A column, and where a row keeps its value. An optional one is empty where it is none, and a file
// may lack its column.
struct CsvColumn {
  std::string_view name;
  std::variant<std::string*, double*, std::int64_t*, std::uint64_t*, std::optional<double>*> value;
};
using CsvColumns = std::vector<CsvColumn>;

std::string csv_header(const CsvColumns& columns);
std::string csv_line(const CsvColumns& columns);

// Takes the rows of a text one by one into what the columns point to. Finds columns by name; throws
// UsageError, with source and line, for what is missing or no number.
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string source, const CsvColumns& columns);
  bool next(const CsvColumns& columns);  // false: there are no more rows

 private:
  std::string source_;
  std::vector<CsvRow> rows_;         // the first holds the names of the columns
  std::vector<std::size_t> places_;  // of each column in a row; past its end: it has none
  std::size_t next_ = 1;
};

// columns(row) gives the CsvColumns of a row.
template <class Row, class Columns>
std::string write_csv(const std::vector<Row>& rows, const Columns& columns) {
  Row row{};
  std::string text = csv_header(columns(row));
  for (const Row& each : rows) text += csv_line(columns(row = each));
  return text;
}

template <class Row, class Columns>
std::vector<Row> read_csv(std::string_view text, const std::string& source,
                          const Columns& columns) {
  Row row{};
  CsvReader reader(text, source, columns(row));
  std::vector<Row> rows;
  while (reader.next(columns(row = Row{}))) rows.push_back(row);
  return rows;
}

}  // namespace hg
