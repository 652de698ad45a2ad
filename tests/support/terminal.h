// A program on a terminal of its own.
#pragma once

#include <string>
#include <vector>

namespace hg::testing {

struct TerminalOutcome {
  int code = -1;
  std::string shown;               // all that came, as it came
  std::vector<std::string> lines;  // what stays to be read, without the lines drawn over
};

// The first argument is the program's path.
TerminalOutcome on_terminal(const std::vector<std::string>& arguments, int columns);

}  // namespace hg::testing
