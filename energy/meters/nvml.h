// An NVIDIA GPU by NVML, the driver's library. It is loaded at run time; without it only the GPU's
// figures are missing. A device that counts energy is read as a counter; of others the power is
// integrated.
#pragma once

#include "energy/meters/candidate.h"

namespace hg::energy {

inline constexpr const char* kNvml = "nvml";

// `library`: libnvidia-ml.so.1 or what stands for it. `gpu`: PCI id or UUID of the device that
// works; others are never counted. Empty: none works.
Opened open_nvml(const std::string& library, const std::string& gpu);

}  // namespace hg::energy
