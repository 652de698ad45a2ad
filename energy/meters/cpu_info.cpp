#include "energy/meters/cpu_info.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "energy/meters/sysfs.h"
#include "tensor/cpu/team.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace hg::energy {
namespace {

#ifdef __x86_64__
struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};
Registers cpuid(unsigned leaf) {
  Registers r;
  __get_cpuid(leaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}

void append(std::string& text, unsigned value) {
  char bytes[4];
  std::memcpy(bytes, &value, 4);
  text.append(bytes, 4);
}

std::string brand_string() {
  constexpr unsigned kFirst = 0x80000002, kLast = 0x80000004;
  if (__get_cpuid_max(0x80000000, nullptr) < kLast) return "";
  std::string brand;
  for (unsigned leaf = kFirst; leaf <= kLast; ++leaf) {
    const Registers r = cpuid(leaf);
    for (unsigned part : {r.a, r.b, r.c, r.d}) append(brand, part);
  }
  brand.resize(std::min(brand.size(), std::strlen(brand.c_str())));
  return std::string(trimmed(brand));
}

void identify(CpuInfo& info) {
  const Registers vendor = cpuid(0), version = cpuid(1);
  for (unsigned part : {vendor.b, vendor.d, vendor.c}) append(info.vendor, part);
  info.brand = brand_string();
  const int family = static_cast<int>(version.a >> 8 & 0xf);
  info.family = family == 0xf ? family + static_cast<int>(version.a >> 20 & 0xff) : family;
  info.model = static_cast<int>(version.a >> 4 & 0xf);
  if (family == 0x6 || family == 0xf) info.model += static_cast<int>(version.a >> 16 & 0xf) << 4;
  info.virtual_machine = (version.c >> 31 & 1) != 0;
}
#else
void identify(CpuInfo&) {}
#endif

int count_packages(const std::string& sys, int threads) {
  std::set<std::uint64_t> packages;
  for (int cpu = 0; cpu < threads; ++cpu)
    if (const auto id = read_number(sys + "/devices/system/cpu/cpu" + std::to_string(cpu) +
                                    "/topology/physical_package_id"))
      packages.insert(*id);
  return std::max(1, static_cast<int>(packages.size()));
}

}  // namespace

CpuInfo read_cpu_info(const std::string& sys) {
  CpuInfo info;
  identify(info);
  info.threads = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  info.allowed = std::clamp(cpu::processors(), 1, info.threads);
  info.packages = count_packages(sys, info.threads);
  return info;
}

std::string described(const CpuInfo& cpu) {
  return fmt::format("{}, {} of {} threads{}", cpu.brand.empty() ? "unknown CPU" : cpu.brand,
                     cpu.allowed, cpu.threads, cpu.virtual_machine ? ", virtual machine" : "");
}

}  // namespace hg::energy
