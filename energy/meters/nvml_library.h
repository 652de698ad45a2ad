// The functions of NVIDIA's NVML that are in use, loaded at run time.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "energy/meters/meter.h"

namespace hg::energy::nvml {

// The result codes of nvml.h that matter here.
inline constexpr int kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3, kNoPermission = 4,
                     kNotFound = 6, kInsufficientSize = 7, kDriverNotLoaded = 9,
                     kVersionMismatch = 18;

using Device = void*;

// nvmlProcessInfo_t since version 2.
struct Process {
  unsigned pid = 0;
  unsigned long long used_bytes = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};

// The library stays loaded: it may have threads of its own.
class Library {
 public:
  Library() = default;
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  std::string load(const std::string& library);  // what is missing; empty: nothing
  int start();
  // At most once a second: initialising takes long when there is no driver.
  bool restart(std::int64_t now_ns);

  // By PCI id, or by UUID ("GPU-...", "MIG-...").
  int find(const std::string& gpu, Device& device) const;
  Watts max_power(Device device) const;
  bool is_divided(Device device) const;  // into instances, by MIG
  // From Ampere on, but for GA100, power is the mean of the last second.
  Seconds power_averaged_over(Device device) const;
  // How many processes compute on the device, other than this one; none: cannot be told.
  std::optional<int> others(Device device) const;
  std::string message(int code) const;

  int (*total_energy_mj)(Device, unsigned long long*) = nullptr;
  int (*power_mw)(Device, unsigned*) = nullptr;
  int session = 0;  // handles are valid in the session that gave them

 private:
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*by_pci_id_)(const char*, Device*) = nullptr;
  int (*by_uuid_)(const char*, Device*) = nullptr;
  const char* (*error_string_)(int) = nullptr;
  // Older libraries may lack these.
  int (*enforced_limit_mw_)(Device, unsigned*) = nullptr;
  int (*set_limit_mw_)(Device, unsigned*) = nullptr;
  int (*mig_mode_)(Device, unsigned* now, unsigned* after_reset) = nullptr;
  int (*capability_)(Device, int* major, int* minor) = nullptr;
  int (*processes_)(Device, unsigned* count, Process*) = nullptr;
  bool started_ = false;
  std::int64_t restarted_ns_ = 0;
};

}  // namespace hg::energy::nvml
