// What bench and info --ranks say of ranks that take steps together.
#pragma once

#include "tests/train/ranks/mpirun.h"

namespace hg::testing {

inline Arguments measured(const std::string& command, const Arguments& more = {}) {
  return Arguments{command, "shapes", "--threads", "1"} + set({"data.name=shapes", "run.lanes=4"}) +
         tiny_model() + more;
}

inline void check_figures(const Json& together, int ranks,
                          const std::vector<std::string>& figures) {
  CHECK(together["ranks"] == ranks);
  CHECK(together["hosts"] == 1);
  for (const std::string& figure : figures) {
    INFO(figure);
    CHECK(together[figure].get<double>() > 0);
  }
}

}  // namespace hg::testing
