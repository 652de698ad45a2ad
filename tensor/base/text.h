// Small helpers for messages: text of unknown origin on one line, and the nearest known name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hg {

// Control characters and bytes outside ASCII escaped, long text cut short: always one line.
std::string printable(std::string_view text, std::size_t longest = 100);

// Changes (insert, delete, replace, swap of neighbours) that turn a into b.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate with the fewest changes, the first of several; "" without candidates.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

// 12340, "J" -> "12.3 kJ": three digits and a prefix of the SI.
std::string with_prefix(double value, std::string_view unit);

// The parts of "a b c".
std::vector<std::string_view> words(std::string_view text);

}  // namespace hg
