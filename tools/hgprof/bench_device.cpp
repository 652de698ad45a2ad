#include "tools/hgprof/bench_device.h"

#include "tensor/base/usage_error.h"
#include "tensor/cuda_device.h"

namespace hg::prof {

Device bench_device(const std::string& name) {
  const bool automatic = name == "auto";
  usage_require(automatic || name == "cpu" || name == "cuda", "--device",
                "is {}, expected cpu, cuda or auto", name);
  if (name == "cpu" || (automatic && !cuda::unavailable().empty())) return Device::cpu;
  usage_require(cuda::unavailable().empty(), "--device", "{}", cuda::unavailable());
  return Device::cuda;
}

energy::MeterChoice open_meter_for(Device device) {
  return energy::open_meter(energy::MeterSetup::from_environment(device));
}

void finish(Device device) {
  if (device != Device::cpu) backend(device).synchronize();
}

}  // namespace hg::prof
