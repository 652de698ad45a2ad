// Moving tensors between devices.
#pragma once

#include "tensor/tensor.h"

namespace hg {

// t itself if it is there already, else a copy in row-major order. One to the host has arrived when
// the call returns.
Tensor to_device(const Tensor& t, Device device);

}  // namespace hg
