// Text for people: names and figures in messages, tables and pages; and numbers out of text.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hg {

// Control characters and bytes outside ASCII escaped, long text cut short: always one line.
std::string printable(std::string_view text, std::size_t longest = 100);
// Text from a file for a terminal or JSON: control characters, and bytes that are no UTF-8,
// escaped.
std::string printable_utf8(std::string_view text);
// printable() in quotes, at most 60 characters.
std::string excerpt(std::string_view text);

// Changes (insert, delete, replace, swap of neighbours) that turn a into b.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate with the fewest changes, the first of several; "" without candidates.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

// Without blanks and line ends around it.
std::string_view trimmed(std::string_view text);
// The parts of "a,b,,c", of which some may be empty.
std::vector<std::string_view> split(std::string_view text, char separator);
// The parts of "a b  c", none of them empty.
std::vector<std::string_view> words(std::string_view text);

// None unless all of the text is one number.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// 12340, "J" -> "12.3 kJ": three digits and a prefix of the SI.
std::string with_prefix(double value, std::string_view unit);

// A figure and the bounds between which it lies, usually with 95 %.
struct Interval {
  double value = 0, low = 0, high = 0;
};
std::string with_prefix(const Interval& figure,
                        std::string_view unit);  // "30.0 J (20.0 J to 45.0 J)"

std::string format_duration(double seconds);  // "7 s", "2:05", "1:02:05"; "?" if it is none

// & < > " ' escaped, for text in HTML and SVG.
std::string escape_html(std::string_view text);

}  // namespace hg
