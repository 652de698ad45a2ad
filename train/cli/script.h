// What the completions of all shells are written with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hg::manual {

// Every `from` in `text` becomes `to`.
std::string replaced(std::string text, std::string_view from, std::string_view to);
// In single quotes; those inside as `quote` says: '\'' of bash and zsh, \' of fish.
std::string in_quotes(std::string_view text, std::string_view quote = "'\\''");
std::string joined(const std::vector<std::string>& words, std::string_view between = " ");
// The names of keys that are paths.
std::vector<std::string> path_keys();

}  // namespace hg::manual
