// NVIDIA GPUs by NVML, the driver's library, loaded when the program runs: a machine without it
// only lacks the GPU's figures. Devices that count energy are read as counters, the others by
// integrating their power.
#pragma once

#include "energy/meters/candidate.h"

namespace hg::energy {

inline constexpr const char* kNvml = "nvml";

// `library`: libnvidia-ml.so.1 or what stands for it.
Opened open_nvml(const std::string& library);

}  // namespace hg::energy
