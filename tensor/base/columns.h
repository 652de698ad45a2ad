// Text in the columns of a terminal: lines and tables that are too wide for it are folded.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace hg {

// The columns of the terminal that `out` is: those that COLUMNS names, else what it says itself,
// else 80. 0 if it is no terminal: programs that read lines want them whole.
std::size_t columns_of(std::FILE* out);

// Characters, of UTF-8.
std::size_t width_of(std::string_view text);

// Lines of at most `columns` characters (0: any number), the later ones indented. Figures with two
// blanks between them are kept together; other text is cut between words.
std::string folded(std::string_view text, std::size_t columns, std::size_t indent = 4);
// Each line of the text by itself.
std::string folded_lines(std::string_view text, std::size_t columns, std::size_t indent = 4);

// "name   what it is": the right part begins, and goes on in further lines, at column `at`; below a
// name that is longer.
std::string hanging(std::string_view left, std::string_view right, std::size_t columns,
                    std::size_t at);
// A line or several, folded where `out` is a terminal.
void print_folded(std::FILE* out, std::string_view text);

// 1234567 -> "1,234,567".
std::string with_separators(std::int64_t value);
std::string with_separators(std::uint64_t value);

// A table whose columns are as wide as their widest cell, names to the left and figures to the
// right.
class TextTable {
 public:
  using Row = std::vector<std::string>;

  // `left`: how many columns hold names.
  explicit TextTable(Row head, std::size_t left = 1) : rows_{std::move(head)}, left_(left) {}
  void add(Row row) { rows_.push_back(std::move(row)); }

  // Columns for which there is no room follow below, after the names again.
  std::string text(std::size_t columns) const;

 private:
  std::size_t width_of_column(std::size_t c) const;
  std::string cell(std::size_t row, std::size_t c) const;

  std::vector<Row> rows_;
  std::size_t left_;
};

}  // namespace hg
