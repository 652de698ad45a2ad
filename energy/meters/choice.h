// Chooses the meter of this machine: tries every source in order of preference, trusts one only
// after it has moved, and tells for each what became of it and why.
#pragma once

#include <vector>

#include "energy/meters/candidate.h"
#include "energy/meters/deadline.h"
#include "energy/meters/rapl_perf.h"
#include "tensor/device.h"

namespace hg::energy {

// Where to look. from_environment() heeds HG_POWERCAP_ROOT, HG_NVML_LIB and HG_NVML_GPU.
struct MeterSetup {
  std::string sys = "/sys";
  std::string powercap_root = "/sys/class/powercap";
  bool powercap_first = false;  // the user named its root, so it comes before perf
  std::string nvml_library = "libnvidia-ml.so.1";
  std::string gpu;  // PCI id or UUID of the one that works; empty: none does
  PerfSystem* perf = &kernel_perf();
  int sharing = 1;        // processes at work together on this machine
  Seconds probe{1};       // the longest work to see a meter move
  Deadlines deadlines{};  // of meters whose driver may hang

  // For work on this device.
  static MeterSetup from_environment(Device device = Device::cpu);
};

struct MeterChoice {
  std::unique_ptr<Meter> meter;       // never null: the model always works
  std::vector<Candidate> candidates;  // in order of preference
};

MeterChoice open_meter(const MeterSetup& setup = MeterSetup::from_environment());

}  // namespace hg::energy
