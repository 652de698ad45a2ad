// Which shells there is completion for.
#include "train/cli/manual.h"

namespace hg::manual {
namespace {

using Maker = std::string (*)(const CommandText&);
constexpr std::pair<const char*, Maker> kShells[] = {
    {"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};

}  // namespace

std::vector<std::string> shells() {
  std::vector<std::string> names;
  for (const auto& [name, make] : kShells) names.emplace_back(name);
  return names;
}

std::string completion(const CommandText& program, const std::string& shell) {
  for (const auto& [name, make] : kShells)
    if (name == shell) return make(program);
  return "";
}

}  // namespace hg::manual
