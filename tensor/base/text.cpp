#include "tensor/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace hg {

std::string printable(std::string_view text, std::size_t longest) {
  std::string line;
  for (const char c : text.substr(0, longest)) {
    if (c >= ' ' && c <= '~')
      line += c;
    else
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return text.size() > longest ? line + "..." : line;
}

namespace {

// Bytes of the character of UTF-8 that the text begins with; 0: it is none, or one that controls.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return first >= ' ' && first != 0x7f ? 1 : 0;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  constexpr unsigned kLeast[] = {0, 0, 0xa0, 0x800, 0x10000};  // U+0080 to U+009F control
  unsigned code = first & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return first < 0xc2 || code < kLeast[length] || code > 0x10ffff || surrogate ? 0 : length;
}

}  // namespace

std::string printable_utf8(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    line += length > 0 ? std::string(text.substr(0, length)) : printable(text.substr(0, 1));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return line;
}

std::string excerpt(std::string_view text) { return '"' + printable(text, 60) + '"'; }

std::size_t edit_distance(std::string_view a, std::string_view b) {
  constexpr std::size_t kLongest = 200;  // the cost is quadratic, and names are short
  a = a.substr(0, kLongest);
  b = b.substr(0, kLongest);
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  const auto best = std::min_element(candidates.begin(), candidates.end(),
                                     [&](const std::string& a, const std::string& b) {
                                       return edit_distance(name, a) < edit_distance(name, b);
                                     });
  return best == candidates.end() ? "" : *best;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> parts = split(text, ' ');
  std::erase(parts, "");
  return parts;
}

std::string with_prefix(double value, std::string_view unit) {
  constexpr std::string_view kPrefixes[] = {"p", "n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
  constexpr int kNone = 4, kLast = 10;
  if (value == 0 || !std::isfinite(value)) return fmt::format("{} {}", value, unit);
  // Rounded first: 999.6 J are 1 kJ.
  const double rounded = std::strtod(fmt::format("{:.2e}", std::abs(value)).c_str(), nullptr);
  const int power = static_cast<int>(std::floor(std::log10(rounded) / 3 + 1e-9));
  const int prefix = std::clamp(power + kNone, 0, kLast);
  const double scaled = std::copysign(rounded, value) / std::pow(1000.0, prefix - kNone);
  const double size = std::abs(scaled);
  return fmt::format("{:.{}f} {}{}", scaled,
                     size < 9.995   ? 2
                     : size < 99.95 ? 1
                                    : 0,
                     kPrefixes[prefix], unit);
}

std::string with_prefix(const Interval& i, std::string_view unit) {
  return fmt::format("{} ({} to {})", with_prefix(i.value, unit), with_prefix(i.low, unit),
                     with_prefix(i.high, unit));
}

std::string format_duration(double seconds) {
  constexpr double kLongest = 1e9;
  if (!(seconds >= 0 && seconds < kLongest)) return "?";
  const auto s = static_cast<std::int64_t>(std::llround(seconds));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string escape_html(std::string_view text) {
  constexpr std::pair<char, std::string_view> kEscapes[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string escaped;
  for (const char c : text) {
    const auto found = std::find_if(std::begin(kEscapes), std::end(kEscapes),
                                    [&](const auto& escape) { return escape.first == c; });
    if (found == std::end(kEscapes))
      escaped += c;
    else
      escaped += found->second;
  }
  return escaped;
}

}  // namespace hg
