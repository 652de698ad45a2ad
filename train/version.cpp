#include "train/version.h"

#include <fmt/format.h>

#include <vector>

#include "tensor/cuda_device.h"

namespace hg {
namespace {

// Written at each build by tools/commit.cmake.
constexpr const char* kCommit =
#include "commit.inc"
    ;

// Those among the compiler's options that kernels gain from.
std::vector<std::string> cpu_features() {
  return {
#ifdef __AVX2__
      "AVX2",
#endif
#ifdef __FMA__
      "FMA",
#endif
#ifdef __AVX512F__
      "AVX-512",
#endif
#ifdef __ARM_NEON
      "NEON",
#endif
#ifdef __ARM_FEATURE_SVE
      "SVE",
#endif
  };
}

}  // namespace

std::string version_of(const std::string& program) {
  const std::vector<std::string> features = cpu_features();
  return fmt::format(
      "{} {} ({}; {}; {}; {})", program, HG_VERSION, kCommit, HG_BUILD_OPTIONS,
      features.empty() ? "no CPU features" : fmt::format("{}", fmt::join(features, ", ")),
      cuda::compiled() ? "CUDA" : "no CUDA");
}

}  // namespace hg
