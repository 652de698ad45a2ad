#include "tensor/base/csv.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tensor/base/files.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"

namespace hg {
namespace {

std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string text = "\"";
  for (const char c : field) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + '"';
}

// Takes one field off the front of the text, up to and without the comma or line end after it.
std::string take_field(std::string_view& text, const std::string& source) {
  std::string field;
  if (!text.starts_with('"')) {
    const std::size_t end = std::min(text.find_first_of(",\n"), text.size());
    field = text.substr(0, end);
    text.remove_prefix(end);
    if (field.ends_with('\r') && !text.starts_with(',')) field.pop_back();
    return field;
  }
  for (text.remove_prefix(1);; text.remove_prefix(1)) {
    usage_require(!text.empty(), source, "a quoted field has no end");
    if (text[0] == '"') {
      text.remove_prefix(1);
      if (!text.starts_with('"')) break;
    }
    field += text[0];
  }
  if (text.starts_with("\r\n")) text.remove_prefix(1);
  usage_require(text.empty() || text[0] == ',' || text[0] == '\n', source,
                "expected a comma or line end after a quoted field");
  return field;
}

}  // namespace

std::vector<CsvRow> parse_csv(std::string_view text, const std::string& source) {
  std::vector<CsvRow> rows;
  while (!text.empty()) {
    CsvRow row;
    while (true) {
      row.push_back(take_field(text, source));
      if (!text.starts_with(',')) break;
      text.remove_prefix(1);
    }
    if (!text.empty()) text.remove_prefix(1);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string to_csv(const CsvRow& row) {
  require(!row.empty(), "csv", "a row without fields");
  std::string line;
  for (const std::string& field : row) line += quoted(field) + ',';
  line.back() = '\n';
  return line;
}

CsvTable::CsvTable(std::string_view text, std::string source)
    : source_(std::move(source)), rows_(parse_csv(text, source_)) {
  usage_require(!rows_.empty(), source_, "is empty, expected a line of columns");
  for (const CsvRow& row : rows_)
    usage_require(row.size() == rows_[0].size(), source_, "a row has {} fields, expected {}",
                  row.size(), rows_[0].size());
}

const std::string& CsvTable::text(std::size_t row, std::string_view column) const {
  const auto found = std::find(rows_[0].begin(), rows_[0].end(), column);
  usage_require(found != rows_[0].end(), source_, "has no column {}", column);
  return rows_[row + 1][static_cast<std::size_t>(found - rows_[0].begin())];
}

std::optional<double> CsvTable::figure(std::size_t row, std::string_view column) const {
  const std::string& field = text(row, column);
  if (field.empty()) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(field.c_str(), &end);
  usage_require(*end == '\0' && std::isfinite(value), source_, "{} is \"{}\", expected a number",
                column, printable(field, 40));
  return value;
}

double CsvTable::number(std::size_t row, std::string_view column) const {
  const std::optional<double> value = figure(row, column);
  usage_require(value.has_value(), source_, "{} is \"\", expected a number", column);
  return *value;
}

CsvLog CsvLog::create(std::string path, CsvRow columns) {
  CsvLog log(std::move(path), std::move(columns));
  log.write();
  return log;
}

CsvLog CsvLog::resume(std::string path, CsvRow columns, std::size_t rows) {
  CsvLog log(std::move(path), std::move(columns));
  std::vector<CsvRow> found = parse_csv(MappedFile(log.path_).bytes(), log.path_);
  usage_require(!found.empty() && found[0] == log.columns_, log.path_, "expected the columns {}",
                fmt::join(log.columns_, ","));
  usage_require(found.size() - 1 >= rows, log.path_, "expected at least {} rows, got {}", rows,
                found.size() - 1);
  for (std::size_t i = 1; i <= rows; ++i) {
    usage_require(found[i].size() == log.columns_.size(), log.path_,
                  "row {}: expected {} fields, got {}", i, log.columns_.size(), found[i].size());
    log.rows_.push_back(std::move(found[i]));
  }
  log.write();
  return log;
}

void CsvLog::append(const CsvRow& row) {
  require(row.size() == columns_.size(), path_, "expected {} fields, got {}", columns_.size(),
          row.size());
  rows_.push_back(row);
  write();
}

void CsvLog::write() const {
  std::string text = to_csv(columns_);
  for (const CsvRow& row : rows_) text += to_csv(row);
  write_file(path_, text);
}

}  // namespace hg
