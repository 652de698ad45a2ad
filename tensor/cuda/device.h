// What the CUDA device is, and whether this build can use it.
#pragma once

#include <cuda_runtime.h>

namespace hg::cuda {

inline constexpr int kDevice = 0;  // the first that CUDA_VISIBLE_DEVICES leaves visible

int device_attribute(cudaDeviceAttr attribute);
// Runs a kernel and reads what it wrote: an error, if this build has no code for the device.
cudaError_t probe();

}  // namespace hg::cuda
