// Words that no command and no option has.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tensor/base/text.h"
#include "train/cli/command.h"
#include "train/cli/manual.h"
#include "train/config/key.h"

namespace hg::manual {
namespace {

std::string full_name(const CLI::App& app) {
  return app.get_parent() ? full_name(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

// The command that was given, or the program where none was.
const CLI::App& command_given(const CLI::App& program) {
  const std::vector<CLI::App*> given = program.get_subcommands();
  return given.empty() ? program : command_given(*given.front());
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const OptionText& option : describe(app).flags())
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

bool is_near(std::string_view name, std::string_view other) {
  return !other.empty() && edit_distance(name, other) <= std::max<std::size_t>(1, name.size() / 3);
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What was meant by the option: one of the command's, or a key, by our name or another program's.
std::string guess_at_option(const std::string& option, const std::vector<std::string>& known) {
  const std::string word = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  const std::string key = has(known, "--set") ? key_meant(word) : "";
  if (!key.empty()) return fmt::format("; did you mean --set {}=VALUE?", key);
  const std::string near = nearest(option, known);
  return is_near(option, near) ? fmt::format("; did you mean {}?", near) : "";
}

std::string guess_at_argument(const std::string& argument, const std::vector<std::string>& known) {
  const bool setting = argument.find('=') != std::string::npos && has(known, "--set");
  return setting ? fmt::format("; did you mean --set {}?", argument) : "";
}

}  // namespace

std::string command_meant(const CLI::App& program, const std::string& name) {
  std::vector<std::string> names;
  for (const CommandText& command : describe(program).commands) names.push_back(command.name);
  const std::string near = nearest(name, names);
  return is_near(name, near) ? near : "";
}

std::string unknown_argument(const CLI::App& program) {
  const CLI::App& command = command_given(program);
  const std::vector<std::string> left = command.remaining();
  if (left.empty()) return "";
  const bool no_command = &command == &program && program.get_require_subcommand_min() > 0;
  const auto option = std::find_if(left.begin(), left.end(),
                                   [](auto& s) { return s.size() > 1 && s.starts_with('-'); });
  if (option != left.end() && !(no_command && option != left.begin())) {
    const std::string name = option->substr(0, option->find('='));
    return fmt::format("{}: unknown option of {}{}", printable(name), full_name(command),
                       guess_at_option(name, option_names(command)));
  }
  if (!no_command)
    return fmt::format("{}: one argument too many for {}{}", printable(left[0]), full_name(command),
                       guess_at_argument(left[0], option_names(command)));
  std::vector<std::string> names;
  for (const CommandText& known : describe(program).commands) names.push_back(known.name);
  const std::string meant = command_meant(program, left[0]);
  return fmt::format("{}: unknown command; expected one of {}{}", printable(left[0]),
                     fmt::join(names, ", "),
                     meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

}  // namespace hg::manual
