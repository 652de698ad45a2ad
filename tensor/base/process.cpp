#include "tensor/base/process.h"

#include <sys/resource.h>

#include "tensor/base/files.h"
#include "tensor/base/text.h"

namespace hg {
namespace {

// "MemTotal:  16384 kB" -> 16384 * 1024
double meminfo_bytes(const std::string& meminfo, std::string_view key) {
  for (const std::string_view line : split(meminfo, '\n')) {
    const std::vector<std::string_view> parts = words(line);
    if (parts.size() > 1 && parts[0] == key)
      return parse_number<double>(parts[1]).value_or(0) * 1024;
  }
  return 0;
}

}  // namespace

std::uint64_t peak_rss_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

MachineMemory machine_memory() {
  const std::string meminfo = read_small_file("/proc/meminfo").value_or("");
  const double total = meminfo_bytes(meminfo, "MemTotal:");
  return {total, total - meminfo_bytes(meminfo, "MemAvailable:")};
}

}  // namespace hg
