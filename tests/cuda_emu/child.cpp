#include "tests/cuda_emu/child.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <stdexcept>

namespace hg::emu {
namespace {

[[noreturn]] void child(int output, const std::function<void()>& body) {
  dup2(output, STDERR_FILENO);
  try {
    body();
    _exit(0);
  } catch (const std::exception& e) {
    std::fputs(e.what(), stderr);
    std::fflush(stderr);
    _exit(3);
  }
}

std::string read_all(int input) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(input, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  return text;
}

}  // namespace

ChildResult run_in_child(const std::function<void()>& body) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("no child process");
  if (pid == 0) child(ends[1], body);
  close(ends[1]);
  std::string report = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  return {status != 0, std::move(report)};
}

}  // namespace hg::emu
