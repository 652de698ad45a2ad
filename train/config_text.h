// A look at TOML text before the library parses it. Version 3.3 of toml++ (Debian 12's) runs into
// undefined behaviour on some characters outside ASCII that stand outside strings or after a
// line-ending backslash, and recurses once per part of a dotted key. Private to config*.cpp.
#pragma once

#include <optional>
#include <string_view>

namespace hg {

struct TextFault {
  std::size_t line;  // from 1
  std::string_view fault;
};

// None in text where strings end on their line, everything outside strings and comments is ASCII,
// and no line holds more dots than a short list of numbers.
std::optional<TextFault> find_fault(std::string_view text);

}  // namespace hg
