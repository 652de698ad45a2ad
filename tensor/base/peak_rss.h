// The most memory that this process has had.
#pragma once

#include <sys/resource.h>

#include <cstdint>

namespace hg {

inline std::uint64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace hg
