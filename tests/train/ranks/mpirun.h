// hgtrain under mpirun, as users start it on a cluster.
#pragma once

#include <doctest/doctest.h>

#include <string>

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

inline Arguments on_ranks(int ranks, const Arguments& arguments) {
  return Arguments{"-n",   std::to_string(ranks), "--oversubscribe", "--bind-to",
                   "none", hgtrain_path()} +
         arguments;
}

}  // namespace hg::testing
