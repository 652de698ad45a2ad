// NVIDIA GPUs by NVML, the driver's library. It is loaded at run time; without it only the GPU's
// figures are missing. Devices that count energy are read as counters; of the others the power is
// integrated.
#pragma once

#include "energy/meters/candidate.h"

namespace hg::energy {

inline constexpr const char* kNvml = "nvml";

// `library`: libnvidia-ml.so.1 or what stands for it.
Opened open_nvml(const std::string& library);

}  // namespace hg::energy
