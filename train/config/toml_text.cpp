#include "train/config/toml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace hg {
namespace {

constexpr int kMostDots = 200;  // in a line, outside strings and comments

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 128; }

// Takes the UTF-8 sequence of a character outside ASCII off the front; false if it is none.
bool take_code_point(std::string_view& text, std::uint32_t& code_point) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const auto length = static_cast<std::size_t>(std::countl_one(lead));
  if (length < 2 || length > 4 || length > text.size()) return false;
  code_point = lead & 0x7fu >> length;
  for (std::size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if (next >> 6 != 2) return false;
    code_point = code_point << 6 | (next & 0x3fu);
  }
  text.remove_prefix(length);
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xd800 && code_point < 0xe000;
  return code_point >= kSmallest[length] && code_point <= 0x10ffff && !surrogate;
}

class LineRewriter {
 public:
  LineRewriter(std::string_view line, std::string& out) : rest_(line), out_(out) {}

  // The fault, or "".
  std::string_view run() {
    int dots = 0;
    while (!rest_.empty() && rest_[0] != '#') {
      if (!is_ascii(rest_[0])) return "expected ASCII outside strings and comments";
      dots += rest_[0] == '.';
      if (dots > kMostDots) return "expected fewer dots in a line";
      if (rest_[0] != '"' && rest_[0] != '\'')
        copy(1);
      else if (const std::string_view fault = rewrite_string(); !fault.empty())
        return fault;
    }
    return "";
  }

 private:
  void copy(std::size_t bytes) {
    out_ += rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
  }

  // 'literal' and "basic" strings alike become "basic" ones.
  std::string_view rewrite_string() {
    const char quote = rest_[0];
    if (rest_.starts_with(std::string(3, quote))) return "expected a string of one line";
    rest_.remove_prefix(1);
    out_ += '"';
    while (!rest_.empty() && rest_[0] != quote) {
      if (!is_ascii(rest_[0])) {
        std::uint32_t code_point = 0;
        if (!take_code_point(rest_, code_point)) return "expected UTF-8";
        out_ += fmt::format("\\U{:08x}", code_point);
      } else if (quote == '\'') {
        if (rest_[0] == '\\' || rest_[0] == '"') out_ += '\\';
        copy(1);
      } else if (rest_[0] == '\\') {
        if (rest_.size() < 2 || !is_ascii(rest_[1]))
          return "expected an escape after the backslash";
        copy(2);
      } else {
        copy(1);
      }
    }
    if (rest_.empty()) return "expected the string to end on its line";
    rest_.remove_prefix(1);
    out_ += '"';
    return "";
  }

  std::string_view rest_;
  std::string& out_;
};

}  // namespace

std::variant<std::string, TomlFault> to_ascii_toml(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::string ascii;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view fault = LineRewriter(text.substr(0, end), ascii).run();
    if (!fault.empty()) return TomlFault{number, std::string(fault)};
    ascii += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return ascii;
}

}  // namespace hg
