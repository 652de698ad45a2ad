#include "tensor/base/csv.h"

#include <algorithm>
#include <cmath>

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

// A spreadsheet takes a cell that begins with one of these for a formula; an apostrophe before it
// keeps it a text.
bool needs_apostrophe(std::string_view text) {
  return !text.empty() && std::string_view("=+-@\t\r'").find(text[0]) != std::string_view::npos;
}

std::string field_text(const std::string& value) { return csv_text(value); }
std::string field_text(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "";
}
std::string field_text(const auto& value) { return fmt::format("{}", value); }

bool may_be_missing(const CsvColumn& column) {
  return std::holds_alternative<std::optional<double>*>(column.value);
}

// False: the field holds no such value.
bool put_field(std::string& value, const std::string& field) {
  const bool marked = field.starts_with('\'') && needs_apostrophe(field.substr(1));
  value = marked ? field.substr(1) : field;
  return true;
}
template <class Number>
bool put_field(Number& value, std::string_view field) {
  const std::optional<Number> number = parse_number<Number>(field);
  if (number) value = *number;
  return number && std::isfinite(static_cast<double>(*number));
}
bool put_field(std::optional<double>& value, std::string_view field) {
  value.reset();
  return field.empty() || put_field(value.emplace(), field);
}

}  // namespace

std::string csv_text(const std::string& text) { return needs_apostrophe(text) ? "'" + text : text; }

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

std::string csv_header(const CsvColumns& columns) {
  CsvRow names;
  for (const CsvColumn& column : columns) names.emplace_back(column.name);
  return to_csv(names);
}

std::string csv_line(const CsvColumns& columns) {
  CsvRow fields;
  for (const CsvColumn& column : columns)
    fields.push_back(
        std::visit([](const auto* value) { return field_text(*value); }, column.value));
  return to_csv(fields);
}

CsvReader::CsvReader(std::string_view text, std::string source, const CsvColumns& columns)
    : source_(std::move(source)), rows_(parse_csv(text, source_)) {
  usage_require(!rows_.empty(), source_, "is empty, expected a line of columns");
  usage_require(text.ends_with('\n'), source_, "line {} has no end: the file is cut short",
                rows_.size());
  for (const CsvColumn& column : columns) {
    const auto found = std::find(rows_[0].begin(), rows_[0].end(), column.name);
    usage_require(found != rows_[0].end() || may_be_missing(column), source_,
                  "has no column {}, expected the columns {}", column.name,
                  trimmed(csv_header(columns)));
    places_.push_back(static_cast<std::size_t>(found - rows_[0].begin()));
  }
}

bool CsvReader::next(const CsvColumns& columns) {
  if (next_ == rows_.size()) return false;
  const CsvRow& row = rows_[next_++];
  const std::string where = fmt::format("{}: line {}", source_, next_);
  usage_require(row.size() == rows_[0].size(), where, "expected {} fields, got {}", rows_[0].size(),
                row.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (places_[i] == row.size()) continue;
    const std::string& field = row[places_[i]];
    const auto put = [&](auto* value) { return put_field(*value, field); };
    usage_require(std::visit(put, columns[i].value), where, "{} is {}, expected a number",
                  columns[i].name, excerpt(field));
  }
  return true;
}

}  // namespace hg
