#include "train/cli/script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "train/config/key.h"

namespace hg::manual {

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string in_quotes(std::string_view text, std::string_view quote) {
  return "'" + replaced(std::string(text), "'", quote) + "'";
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  return fmt::format("{}", fmt::join(words, between));
}

std::vector<std::string> path_keys() {
  std::vector<std::string> names;
  for (const KeyText& key : key_texts())
    if (key.path) names.push_back(key.name);
  return names;
}

}  // namespace hg::manual
