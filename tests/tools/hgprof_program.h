// Runs hgprof as users do.
#pragma once

#include "tests/train/program.h"

namespace hg::testing {

inline Outcome hgprof(const Arguments& arguments) {
  ChildOptions options;
  options.program = HG_PROF_PROGRAM;
  return Child(arguments, options).wait();
}

}  // namespace hg::testing
