// The man page.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "train/cli/manual.h"

namespace hg::manual {
namespace {

// Variables that the programs read.
constexpr std::pair<const char*, const char*> kEnvironment[] = {
    {"HG_DATA", "folder in which data sets are looked for, each in a folder of its name"},
    {"HG_POWERCAP_ROOT", "energy counters, in place of /sys/class/powercap"},
    {"HG_NVML_LIB", "library of GPU meters, in place of libnvidia-ml.so.1"},
    {"COLUMNS", "columns of the terminal, which lines and tables are folded to"},
    {"NO_COLOR", "if set and not empty, the progress bar has no colours"},
};

// Text as groff shows it as it is: hyphens that can be copied, no requests.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + escaped(text) + "\\fR"; }

std::string man_entry(const std::string& head, std::string_view text) {
  return fmt::format(".TP\n{}\n{}\n", head, escaped(text));
}

std::string man_option(const OptionText& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back(bold(name));
  std::string head = fmt::format("{}", fmt::join(names, ", "));
  if (!option.value.empty()) head += (option.by_place() ? "" : " ") + italic(option.value);
  const std::string initial =
      option.initial.empty() ? "" : fmt::format(" (default: {})", option.initial);
  return man_entry(head, option.help + initial);
}

std::string as_typed(const std::vector<std::string>& lines) {
  std::string text = ".nf\n.RS\n";
  for (const std::string& line : lines) text += escaped(line) + "\n";
  return text + ".RE\n.fi\n";
}

// Those that not every command has.
std::string own_exit_codes(const CommandText& command, const CommandText& program) {
  std::string text;
  for (const auto& [code, meaning] : command.exit_codes) {
    const auto usual = program.exit_codes.find(code);
    if (usual == program.exit_codes.end() || usual->second != meaning)
      text += fmt::format(".PP\nExit code {}: {}.\n", code, escaped(meaning));
  }
  return text;
}

// All commands have --help: it is told once.
std::string options_of(const CommandText& command, const CommandText& program) {
  std::string text;
  for (const OptionText& argument : command.arguments()) text += man_option(argument);
  for (const OptionText& flag : command.flags())
    if (&command == &program || flag.names.back() != "--help") text += man_option(flag);
  return text;
}

std::string section_of(const CommandText& command, const CommandText& program) {
  const std::string usage = usage_of(command, program.name + " " + command.name);
  std::string text = fmt::format(".SS {}\n{}.\n{}", escaped(usage), escaped(command.help),
                                 options_of(command, program));
  if (!command.examples.empty()) text += ".PP\n" + as_typed(command.examples);
  return text + own_exit_codes(command, program);
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) { return std::toupper(c); });
  return text;
}

}  // namespace

std::string man_page(const CommandText& program, const std::string& version) {
  std::string text = fmt::format(
      ".TH {} 1 \"\" \"HuggingGreen {}\" \"HuggingGreen engine\"\n.SH NAME\n{} \\- {}\n"
      ".SH SYNOPSIS\n.nf\n{}\n.fi\n.SH DESCRIPTION\n{}\n.SH OPTIONS\n{}.SH COMMANDS\n",
      upper(program.name), version, program.name, escaped(program.help),
      escaped(usage_of(program, program.name)), escaped(program.help),
      options_of(program, program));
  for (const CommandText& command : program.commands) text += section_of(command, program);
  for (const NameList& list : name_lists())
    text += fmt::format(".SH {}\n{}\n", upper(list.title),
                        escaped(fmt::format("{}", fmt::join(list.names, ", "))));
  text += ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : program.exit_codes)
    text += man_entry(bold(std::to_string(code)), meaning);
  text += ".SH ENVIRONMENT\n";
  for (const auto& [name, meaning] : kEnvironment) text += man_entry(bold(name), meaning);
  if (!program.examples.empty()) text += ".SH EXAMPLES\n" + as_typed(program.examples);
  return text + ".SH SEE ALSO\n" +
         (program.name == "hgtrain" ? "\\fBhgprof\\fR(1)\n" : "\\fBhgtrain\\fR(1)\n");
}

}  // namespace hg::manual
