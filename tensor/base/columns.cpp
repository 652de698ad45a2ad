#include "tensor/base/columns.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "tensor/base/text.h"

namespace hg {
namespace {

constexpr std::string_view kBetweenFigures = "  ";

// Parts with the blanks before them: "epoch 1/2", "  loss 0.5", "  9.94 J"; or words.
std::vector<std::string_view> parts_of(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t word = text.find_first_not_of(' ', begin);
    std::size_t end = word == std::string_view::npos ? word : text.find(separator, word);
    end = std::min(end, text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return parts;
}

// Words with the blanks before them; a number and its unit are one.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  bool number = false;
  for (const std::string_view part : parts_of(text, " ")) {
    if (number)
      words.back() = {words.back().data(), words.back().size() + part.size()};
    else
      words.push_back(part);
    number = !number && std::isdigit(static_cast<unsigned char>(part.back()));
  }
  return words;
}

std::string_view without_blanks_before(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

// Lines that begin with `indent` blanks, the first after `used` characters. A part longer than a
// line is cut between its words.
std::string fold(const std::vector<std::string_view>& parts, std::size_t columns,
                 std::size_t indent, std::size_t used) {
  const std::string next_line = "\n" + std::string(indent, ' ');
  std::string lines;
  bool begins = true;  // of a line
  const auto put = [&](std::string_view part) {
    if (!begins && used + width_of(part) > columns)
      lines += next_line, used = indent, begins = true;
    if (begins && !lines.empty()) part = without_blanks_before(part);
    lines += part;
    used += width_of(part);
    begins = false;
  };
  for (const std::string_view part : parts) {
    const bool too_long = indent + width_of(without_blanks_before(part)) > columns;
    for (const std::string_view word : too_long ? words_of(part) : std::vector{part}) put(word);
  }
  return lines;
}

}  // namespace

std::size_t columns_of(std::FILE* out) {
  constexpr std::size_t kUsual = 80;
  if (!isatty(fileno(out))) return 0;
  const char* told = std::getenv("COLUMNS");
  if (const auto n = parse_number<std::size_t>(told ? told : ""); n && *n > 0) return *n;
  winsize size{};
  const bool known = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsual;
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) >> 6) != 2; }));
}

std::string folded(std::string_view text, std::size_t columns, std::size_t indent) {
  if (columns == 0 || width_of(text) <= columns) return std::string(text);
  indent = std::min(indent, columns / 2);
  const bool of_figures =
      without_blanks_before(text).find(kBetweenFigures) != std::string_view::npos;
  if (!of_figures) return fold(words_of(text), columns, indent, 0);
  return fold(parts_of(text, kBetweenFigures), columns, indent, 0);
}

std::string hanging(std::string_view left, std::string_view right, std::size_t columns,
                    std::size_t at) {
  const bool fits = width_of(left) + 2 <= at;
  const std::string start =
      std::string(left) + (fits ? "" : "\n") + std::string(fits ? at - width_of(left) : at, ' ');
  if (columns == 0) return start + std::string(right);
  return start + fold(words_of(right), std::max(columns, at + 10), at, at);
}

std::string folded_lines(std::string_view text, std::size_t columns, std::size_t indent) {
  std::string lines;
  for (const std::string_view line : split(text, '\n'))
    lines += (line.data() == text.data() ? "" : "\n") + folded(line, columns, indent);
  return lines;
}

void print_folded(std::FILE* out, std::string_view text) {
  const std::string lines = folded_lines(text, columns_of(out));
  std::fwrite(lines.data(), 1, lines.size(), out);
}

std::string with_separators(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string with_separators(std::int64_t value) {
  if (value >= 0) return with_separators(static_cast<std::uint64_t>(value));
  return "-" + with_separators(~static_cast<std::uint64_t>(value) + 1);
}

std::size_t TextTable::width_of_column(std::size_t c) const {
  std::size_t width = 0;
  for (const Row& row : rows_)
    if (c < row.size()) width = std::max(width, width_of(row[c]));
  return width;
}

std::string TextTable::cell(std::size_t row, std::size_t c) const {
  const std::string text = c < rows_[row].size() ? rows_[row][c] : "";
  const std::string blanks(width_of_column(c) - width_of(text), ' ');
  return (c == 0 ? "" : "  ") + (c < left_ ? text + blanks : blanks + text);
}

std::string TextTable::text(std::size_t columns) const {
  std::size_t names = 0, count = 0;
  for (const Row& row : rows_) count = std::max(count, row.size());
  for (std::size_t c = 0; c < std::min(left_, count); ++c)
    names += width_of_column(c) + (c == 0 ? 0 : 2);
  std::string text;
  std::size_t first = left_;
  do {
    std::size_t last = first, width = names;
    while (last < count &&
           (columns == 0 || last == first || width + 2 + width_of_column(last) <= columns))
      width += 2 + width_of_column(last++);
    if (!text.empty()) text += '\n';
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      std::string line;
      for (std::size_t c = 0; c < std::min(left_, count); ++c) line += cell(r, c);
      for (std::size_t c = first; c < last; ++c) line += cell(r, c);
      text += line.erase(line.find_last_not_of(' ') + 1) + '\n';
    }
    first = last;
  } while (first < count);
  return text;
}

}  // namespace hg
