// What --version prints.
#pragma once

#include <string>

namespace hg {

// "hgtrain 0.2.0 (4f2a91c; Release, native; AVX2, FMA, AVX-512; no CUDA)"
std::string version_of(const std::string& program);

}  // namespace hg
