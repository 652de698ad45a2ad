// Whether this process was started as one of several by mpirun or srun, and what follows from it.
#pragma once

#include <functional>

#include "train/ranks/ranks.h"

namespace hg {

// The launcher that started this process with others, by its environment: "mpirun"; empty: none.
std::string launcher();

// body() with the ranks of this launch as ranks(); gives its exit code. What it throws on one rank
// ends the others, too, and one of them throws it on, for main() to tell.
int on_ranks(const std::function<int()>& body);

}  // namespace hg
