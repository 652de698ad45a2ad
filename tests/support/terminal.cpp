#include "tests/support/terminal.h"

#include <doctest/doctest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <sstream>

namespace hg::testing {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// This process's, but for what tells of terminals.
std::vector<std::string> environment() {
  std::vector<std::string> all{"TERM=xterm", "NO_COLOR=1"};
  for (char** at = environ; *at; ++at) {
    const std::string variable = *at;
    if (!variable.starts_with("TERM=") && !variable.starts_with("COLUMNS="))
      all.push_back(variable);
  }
  return all;
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> part;
  // An error: the program has left the terminal.
  for (ssize_t size; (size = ::read(fd, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(size));
  return text;
}

std::vector<std::string> lines_that_stay(const std::string& shown) {
  std::vector<std::string> lines;
  std::istringstream in(shown);
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    line = line.substr(line.rfind('\r') + 1);
    if (line.starts_with("\x1b[K")) line = line.substr(3);
    lines.push_back(line);
  }
  return lines;
}

}  // namespace

TerminalOutcome on_terminal(const std::vector<std::string>& arguments, int columns) {
  std::vector<std::string> own = arguments, variables = environment();
  const std::vector<char*> argv = pointers(own), envp = pointers(variables);
  const winsize size{24, static_cast<unsigned short>(columns), 0, 0};
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  REQUIRE(child >= 0);
  if (child == 0) {
    ::execve(argv[0], argv.data(), envp.data());
    _exit(99);
  }
  TerminalOutcome outcome;
  outcome.shown = read_all(terminal);
  ::close(terminal);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.lines = lines_that_stay(outcome.shown);
  return outcome;
}

}  // namespace hg::testing
