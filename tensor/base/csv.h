// A CSV file that grows by rows and is whole at any moment: each append rewrites it atomically
// (rows are few, one an epoch), so a kill leaves either the old rows or the old rows and the new.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hg {

using CsvRow = std::vector<std::string>;

// All rows of the text, the header included, as fields; RFC 4180.
std::vector<CsvRow> parse_csv(std::string_view text, const std::string& source);
std::string to_csv(const CsvRow& row);  // one line with its end

// Rows under named columns. Throws UsageError, naming the source, for what is not there.
class CsvTable {
 public:
  CsvTable(std::string_view text, std::string source);

  std::size_t rows() const { return rows_.size() - 1; }
  const std::string& text(std::size_t row, std::string_view column) const;
  // Finite; none: the field is empty.
  std::optional<double> figure(std::size_t row, std::string_view column) const;
  double number(std::size_t row, std::string_view column) const;  // the same, never empty

 private:
  std::string source_;
  std::vector<CsvRow> rows_;  // the first holds the columns
};

class CsvLog {
 public:
  // A new file with the header alone.
  static CsvLog create(std::string path, CsvRow columns);
  // Goes on after the first `rows` rows of an existing file: what a killed run wrote after the
  // checkpoint it resumes from is dropped, so no row comes twice. For that, the row of an epoch has
  // to be appended before the checkpoint of the same epoch is written.
  static CsvLog resume(std::string path, CsvRow columns, std::size_t rows);

  void append(const CsvRow& row);
  const std::vector<CsvRow>& rows() const { return rows_; }

 private:
  CsvLog(std::string path, CsvRow columns) : path_(std::move(path)), columns_(std::move(columns)) {}
  void write() const;

  std::string path_;
  CsvRow columns_;
  std::vector<CsvRow> rows_;
};

}  // namespace hg
