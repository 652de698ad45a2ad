// What a program says of itself, all from its CLI11 objects: --help, guesses at mistyped words, the
// man page, and completion for shells.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace hg {
struct Command;
}

namespace hg::manual {

// What a shell offers in the place of a value.
struct Offer {
  std::vector<std::string> words;
  bool files = false, folders = false;
  bool settings = false;  // section.key=value
  bool list = false;      // several words, with commas between
};

struct OptionText {
  std::vector<std::string> names;  // "-h", "--help"; empty: an argument by its place
  std::string value;               // what stands for it: "DIR"; empty: a flag
  std::string help, initial;
  bool required = false, repeated = false;
  Offer offer;

  bool by_place() const { return names.empty(); }
};

struct CommandText {
  std::string name, help;
  std::vector<OptionText> options;
  std::vector<std::string> examples;
  std::map<int, std::string> exit_codes;
  std::vector<CommandText> commands;

  std::vector<OptionText> arguments() const;  // by their places
  std::vector<OptionText> flags() const;      // by their names
};

// A list of names that several commands take.
struct NameList {
  std::string title;
  std::vector<std::string> names;
};
std::vector<NameList> name_lists();

// The program and its commands, or a command alone, without what is hidden.
CommandText describe(const CLI::App& app);

// "--out DIR"; of an argument by its place "CONFIG".
std::string head_of(const OptionText& option);
// A line or two; `name` is the whole one: "hgtrain train".
std::string usage_of(const CommandText& command, const std::string& name);
std::string help_text(const CommandText& command, const std::string& name, std::size_t columns);
// In groff's man macros.
std::string man_page(const CommandText& program, const std::string& version);

// Shells for which there is completion.
std::vector<std::string> shells();
std::string completion(const CommandText& program, const std::string& shell);

// Each of its own shell, for completion().
std::string bash_completion(const CommandText& program);
std::string zsh_completion(const CommandText& program);
std::string fish_completion(const CommandText& program);

// What CLI11 did not know of the arguments, in one line with a guess; empty: nothing.
std::string unknown_argument(const CLI::App& program);
// The command of the program that someone who wrote `name` is likely to have meant; "": none.
std::string command_meant(const CLI::App& program, const std::string& name);

}  // namespace hg::manual
