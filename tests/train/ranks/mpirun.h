// hgtrain under mpirun, as users start it on a cluster.
#pragma once

#include <doctest/doctest.h>
#include <signal.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/environment.h"
#include "tests/support/program.h"
#include "tests/support/sanitized.h"

namespace hg::testing {

// Why there is no mpirun to test with; empty: there is.
inline std::string no_mpirun() {
  if (kSanitized) return "skipped: sanitizers report what MPI's libraries leak";
  return std::string(HG_MPIRUN).empty() ? "skipped: no Open MPI on this machine" : "";
}
#define HG_NEEDS_MPIRUN()                                                     \
  if (const std::string reason = hg::testing::no_mpirun(); !reason.empty()) { \
    MESSAGE(reason);                                                          \
    return;                                                                   \
  }

// Root may run it, as in CI.
struct MpiRoot {
  const Environment allowed{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
      confirmed{"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"};
};

inline ChildOptions under_mpirun(ChildOptions options = {}) {
  options.program = HG_MPIRUN;
  return options;
}

inline Arguments on_ranks(int ranks, const Arguments& arguments,
                          const std::string& program = hgtrain_path()) {
  return Arguments{"-n", std::to_string(ranks), "--oversubscribe", "--bind-to", "none", program} +
         arguments;
}

// The processes of mpirun's ranks, in no particular order.
inline std::vector<pid_t> ranks_of(pid_t mpirun) {
  std::vector<pid_t> ranks;
  std::ifstream children("/proc/" + std::to_string(mpirun) + "/task/" + std::to_string(mpirun) +
                         "/children");
  for (pid_t pid = 0; children >> pid;) ranks.push_back(pid);
  return ranks;
}

// Starts it on so many ranks and, when they are at work, sends a signal to the last.
inline Outcome disturbed(int size, const Arguments& arguments, int number,
                         const std::string& program = hgtrain_path()) {
  ChildOptions options = under_mpirun();
  options.in_step = true;
  Child child(on_ranks(size, arguments, program), options);
  if (!child.await_line("epoch 2/")) {
    const Outcome ended = child.wait();
    FAIL("ended early, with code " << ended.code << ": " << ended.err);
  }
  const std::vector<pid_t> ranks = ranks_of(child.pid());
  REQUIRE(ranks.size() == static_cast<std::size_t>(size));
  REQUIRE(::kill(ranks.back(), number) == 0);
  return child.wait();
}

inline int lines_with(const std::string& part, const std::string& text) {
  int count = 0;
  for (const std::string& line : lines_of(text)) count += line.find(part) != std::string::npos;
  return count;
}

}  // namespace hg::testing
