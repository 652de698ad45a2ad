// Damage to a file, for parsers to survive: a few random changes drawn from a seeded stream.
#pragma once

#include <string>

#include "tensor/random.h"

namespace hg::testing {

std::string mutate(std::string bytes, RandomStream& random);

}  // namespace hg::testing
