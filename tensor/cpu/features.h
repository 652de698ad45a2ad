// Instructions beyond the architecture's first that this build uses, as -march told the compiler.
#pragma once

#include <string>
#include <vector>

namespace hg::cpu {

std::vector<std::string> features();  // "AVX2", "FMA"

// Ends the program with one line if this CPU lacks one of them. It uses none of them itself.
void require_features();

}  // namespace hg::cpu
