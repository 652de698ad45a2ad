// --help.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tensor/base/columns.h"
#include "train/cli/manual.h"

namespace hg::manual {
namespace {

constexpr std::size_t kLeft = 24;  // columns of names; a longer one has a line of its own

std::string help_entry(const std::string& left, const std::string& right, std::size_t columns) {
  return hanging("  " + left, right, columns, kLeft) + "\n";
}

std::string help_of(const OptionText& option) {
  if (option.initial.empty()) return option.help;
  return fmt::format("{} (default: {})", option.help, option.initial);
}

std::string usage_of(const OptionText& argument) {
  const std::string shown = argument.value + (argument.repeated ? "..." : "");
  return argument.required ? shown : "[" + shown + "]";
}

std::string help_entries(const std::string& title, const std::vector<OptionText>& options,
                         std::size_t columns) {
  if (options.empty()) return "";
  std::string text = "\n" + title + ":\n";
  for (const OptionText& option : options)
    text += help_entry(head_of(option), help_of(option), columns);
  return text;
}

}  // namespace

std::string head_of(const OptionText& option) {
  if (option.by_place()) return option.value;
  const std::string names = fmt::format("{}", fmt::join(option.names, ", "));
  return option.value.empty() ? names : names + " " + option.value;
}

std::string usage_of(const CommandText& command, const std::string& name) {
  std::string usage = name;
  for (const OptionText& argument : command.arguments()) usage += " " + usage_of(argument);
  usage += " [OPTION]...";
  if (command.commands.empty()) return usage;
  return command.arguments().empty() ? name + " COMMAND [ARGUMENT]..."
                                     : usage + "\n       " + name + " COMMAND [ARGUMENT]...";
}

std::string help_text(const CommandText& command, const std::string& name, std::size_t columns) {
  std::string text =
      fmt::format("{}\n\nUsage: {}\n", folded(command.help, columns, 0), usage_of(command, name));
  if (!command.commands.empty()) text += "\nCommands:\n";
  for (const CommandText& c : command.commands) text += help_entry(c.name, c.help, columns);
  text += help_entries("Arguments", command.arguments(), columns);
  text += help_entries("Options", command.flags(), columns);
  if (!command.commands.empty())
    for (const NameList& list : name_lists())
      text += fmt::format("\n{}:\n{}\n", list.title,
                          folded(fmt::format("  {}", fmt::join(list.names, ", ")), columns, 2));
  if (!command.examples.empty()) text += "\nExample:\n";
  for (const std::string& example : command.examples) text += "  " + example + "\n";
  if (!command.exit_codes.empty()) text += "\nExit codes:\n";
  for (const auto& [code, meaning] : command.exit_codes)
    text += hanging(fmt::format("  {}", code), meaning, columns, 8) + "\n";
  return text;
}

}  // namespace hg::manual
