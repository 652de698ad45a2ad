// A command of a program: what CLI11 knows of it, and what its help and man page end with. For the
// files with a main() and those beside this one: CLI11 is large.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hg {

struct Command : CLI::App {
  // A program.
  Command(const std::string& help, const std::string& name) : CLI::App(help, name) {}
  // A command of it, to be handed to its add_subcommand().
  Command(const std::string& help, const std::string& name, Command* program)
      : CLI::App(help, name, program) {}

  // A whole line of a shell.
  Command& example(std::string line) {
    examples.push_back(std::move(line));
    return *this;
  }
  // Beside the usual ones, or in their place.
  Command& exits(int code, std::string meaning) {
    exit_codes[code] = std::move(meaning);
    return *this;
  }

  std::vector<std::string> examples;
  std::map<int, std::string> exit_codes{
      {0, "success"},
      {1, "a failure of the work"},
      {2, "bad usage or input, with one line that names file, key and what was expected"}};
};

}  // namespace hg
