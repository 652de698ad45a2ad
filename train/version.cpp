#include "train/version.h"

#include <fmt/format.h>

#include <vector>

#include "tensor/cpu/features.h"
#include "tensor/cuda_device.h"

namespace hg {
namespace {

// Written at each build by tools/commit.cmake.
constexpr const char* kCommit =
#include "commit.inc"
    ;

}  // namespace

std::string version_of(const std::string& program) {
  const std::vector<std::string> features = cpu::features();
  return fmt::format(
      "{} {} ({}; {}; {}; {})", program, HG_VERSION, kCommit, HG_BUILD_OPTIONS,
      features.empty() ? "no CPU features" : fmt::format("{}", fmt::join(features, ", ")),
      cuda::compiled() ? "CUDA" : "no CUDA");
}

}  // namespace hg
