// What the CPU tells about itself, and how much of it this process may use.
#pragma once

#include <string>

namespace hg::energy {

struct CpuInfo {
  std::string vendor;  // "GenuineIntel", "AuthenticAMD"; empty where there is no CPUID
  std::string brand;   // "AMD EPYC 7763 64-Core Processor"
  int family = 0, model = 0;
  bool virtual_machine = false;
  int threads = 1;   // of the whole machine, as far as it is visible
  int allowed = 1;   // of those, the ones this process may run on
  int packages = 1;  // sockets

  bool is_amd() const { return vendor == "AuthenticAMD" || vendor == "HygonGenuine"; }
};

// `sys`: /sys or what stands for it.
CpuInfo read_cpu_info(const std::string& sys);

// "Intel Xeon ..., 2 of 2 threads"
std::string described(const CpuInfo& cpu);

}  // namespace hg::energy
