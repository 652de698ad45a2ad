// The programs as their users ask them about themselves.
#pragma once

#include "tests/support/program.h"

namespace hg::testing {

inline Outcome run_program(const std::string& program, const Arguments& arguments) {
  return program == "hgtrain" ? hgtrain(arguments) : hgprof(arguments);
}

// Those that --help lists.
inline std::vector<std::string> commands_of(const std::string& program) {
  std::vector<std::string> commands;
  bool listed = false;
  for (const std::string& line : lines_of(run_program(program, {"--help"}).out)) {
    if (line == "Commands:")
      listed = true;
    else if (line.empty())
      listed = false;
    else if (listed && line[2] != ' ')
      commands.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return commands;
}

// With one blank between words.
inline std::string joined_words(const std::string& text) {
  std::istringstream in(text);
  std::string all;
  for (std::string word; in >> word;) all += (all.empty() ? "" : " ") + word;
  return all;
}

// Where PATH has the tool; "" if it has not, with a line that says what is left out.
inline std::string tool(const std::string& name, const std::string& without) {
  const char* path = std::getenv("PATH");
  std::istringstream in(path ? path : "");
  for (std::string folder; std::getline(in, folder, ':');)
    if (::access((folder + "/" + name).c_str(), X_OK) == 0) return folder + "/" + name;
  MESSAGE("skipped: no " << name << " here, so " << without);
  return "";
}

inline Outcome run_tool(const std::string& path, const Arguments& arguments) {
  ChildOptions options;
  options.program = path;
  return hgtrain(arguments, options);
}

}  // namespace hg::testing
