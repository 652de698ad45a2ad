// Runs a function in a child process: a report may end it.
#pragma once

#include <functional>
#include <string>

namespace hg::emu {

struct ChildResult {
  bool failed;
  std::string report;  // of the exception, or all it wrote to stderr
};
ChildResult run_in_child(const std::function<void()>& body);

}  // namespace hg::emu
