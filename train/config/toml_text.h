// TOML text made fit for the library that parses it. Version 3.3 of toml++ (Debian 12's) has
// undefined behaviour where it meets characters outside ASCII in some places, and recurses once per
// part of a dotted key: it gets text without the one and with little of the other. Private to
// train/config.
#pragma once

#include <string>
#include <string_view>
#include <variant>

namespace hg {

struct TomlFault {
  std::size_t line;  // from 1
  std::string fault;
};

// The same TOML, line by line, in ASCII: strings with escapes, comments gone. Refuses strings of
// several lines, which no configuration needs, and lines with more dots than a list of numbers has.
std::variant<std::string, TomlFault> to_ascii_toml(std::string_view text);

}  // namespace hg
