#include "train/config_text.h"

#include <algorithm>
#include <string>

namespace hg {
namespace {

constexpr int kMostDots = 200;  // in a line, outside strings and comments

// Just after the string that starts at line[i]; npos if it has no end, or several lines.
std::size_t end_of_string(std::string_view line, std::size_t i) {
  const char quote = line[i];
  if (line.substr(i).starts_with(std::string(3, quote))) return line.npos;
  for (++i; i < line.size(); ++i) {
    if (line[i] == quote) return i + 1;
    if (line[i] == '\\' && quote == '"') ++i;
  }
  return line.npos;
}

std::string_view fault_in(std::string_view line) {
  int dots = 0;
  for (std::size_t i = 0; i < line.size() && line[i] != '#';) {
    if (line[i] == '"' || line[i] == '\'') {
      i = end_of_string(line, i);
      if (i == line.npos) return "expected the string to end on its line";
      continue;
    }
    if (static_cast<unsigned char>(line[i]) > 127) return "expected ASCII outside strings";
    dots += line[i++] == '.';
  }
  return dots > kMostDots ? "expected fewer dots" : "";
}

}  // namespace

std::optional<TextFault> find_fault(std::string_view text) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view fault = fault_in(text.substr(0, end));
    if (!fault.empty()) return TextFault{number, fault};
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

}  // namespace hg
