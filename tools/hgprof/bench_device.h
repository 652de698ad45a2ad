// The device that single ops are measured on.
#pragma once

#include "energy/meters/choice.h"
#include "tensor/tensor.h"

namespace hg::prof {

// cpu, cuda or auto; UsageError for others, and for cuda where there is none.
Device bench_device(const std::string& name);
// With the meters for work on it.
energy::MeterChoice open_meter_for(Device device);
// Waits until the device has done what it was given. On the CPU that is so.
void finish(Device device);

}  // namespace hg::prof
