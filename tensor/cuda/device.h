// What the CUDA device is, and whether this build can use it.
#pragma once

#include <cuda_runtime.h>

namespace hg::cuda {

// Makes the device in use that of this thread, as each thread has one of its own in CUDA.
void enter_device();
int device_attribute(cudaDeviceAttr attribute);
// Runs a kernel and reads what it wrote: an error, if this build has no code for the device.
cudaError_t probe();

}  // namespace hg::cuda
