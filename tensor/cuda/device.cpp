#include "tensor/cuda/device.h"

#include <cstdlib>
#include <string>

#include "tensor/cuda/check.h"
#include "tensor/cuda_device.h"
#include "tensor/cuda_peers.h"

namespace hg::cuda {
namespace {

int device = 0;  // of those that CUDA_VISIBLE_DEVICES leaves visible
bool asked_for = false;

cudaDeviceProp properties() {
  cudaDeviceProp all{};
  check(cudaGetDeviceProperties(&all, device), "cudaGetDeviceProperties");
  return all;
}

// CUDA's numbers of versions: 12020 is 12.2.
std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

// The oldest drivers that run programs of each major version of CUDA.
const char* least_driver(int runtime) { return runtime >= 13000 ? "580" : "525.60"; }

struct Versions {
  int driver = 0, runtime = 0;
  Versions() {
    check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  }
  std::string needed() const {
    return fmt::format("CUDA {} of this build needs version {} or newer", version(runtime),
                       least_driver(runtime));
  }
  std::string both() const {
    return fmt::format("the driver is of CUDA {}, this build of CUDA {}", version(driver),
                       version(runtime));
  }
};

std::string visible_devices() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible ? fmt::format(" (CUDA_VISIBLE_DEVICES is \"{}\")", visible) : "";
}

bool lacks_code(cudaError_t error) {
  return error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction ||
         error == cudaErrorUnsupportedPtxVersion;
}

// Empty if the device runs this build's kernels.
std::string fault_of_device(const Versions& versions) {
  const cudaError_t error = probe();
  if (error == cudaSuccess) return {};
  const std::string described = fmt::format("{}, of compute capability {}.{},", properties().name,
                                            device_attribute(cudaDevAttrComputeCapabilityMajor),
                                            device_attribute(cudaDevAttrComputeCapabilityMinor));
  if (lacks_code(error))
    return fmt::format(
        "{} runs no code of this build, which has it for {} (CMAKE_CUDA_ARCHITECTURES); {}",
        described, HG_CUDA_ARCHITECTURES, versions.both());
  return fmt::format("{} cannot be used: {}; {}", described, cudaGetErrorString(error),
                     versions.both());
}

// Without a driver cudaGetDeviceCount fails and leaves the count as it was.
std::string find_device() {
  asked_for = true;
  const Versions versions;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (versions.driver == 0) return "no NVIDIA driver; " + versions.needed();
  if (error == cudaErrorInsufficientDriver)
    return fmt::format("the NVIDIA driver is of CUDA {} and too old; {}", version(versions.driver),
                       versions.needed());
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
    return "no NVIDIA GPU" + visible_devices();
  if (error != cudaSuccess)
    return fmt::format("CUDA cannot start: {}; {}", cudaGetErrorString(error), versions.both());
  enter_device();
  // Who waits for the device sleeps: a thread that spins draws power and takes a core.
  static_cast<void>(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
  return fault_of_device(versions);
}

// What a multiprocessor does in a cycle, in FLOPs: in f32, and in TF32 by its tensor cores.
struct Rates {
  int capability;  // 10 x major + minor, from which on they hold
  double f32, tf32;
};
constexpr Rates kRates[] = {{90, 256, 2048}, {86, 256, 256}, {80, 128, 1024}, {0, 128, 128}};

Rates rates_of(int capability) {
  for (const Rates& rates : kRates)
    if (capability >= rates.capability) return rates;
  return {};
}

}  // namespace

int device_attribute(cudaDeviceAttr attribute) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

void enter_device() {
  thread_local bool entered = device == 0;  // where threads begin
  if (!entered) check(cudaSetDevice(device), "cudaSetDevice");
  entered = true;
}

void choose_gpu(int number) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) return;
  require(!asked_for || device == number % count, "cuda", "device {} is in use already", device);
  device = number % count;
}

GpuInUse gpu_in_use() {
  GpuInUse gpu;
  check(cudaGetDeviceCount(&gpu.visible), "cudaGetDeviceCount");
  const cudaUUID_t uuid = properties().uuid;
  for (const char byte : uuid.bytes)
    gpu.uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return gpu;
}

bool compiled() { return true; }

std::string unavailable() {
  static const std::string& reason = *new std::string(find_device());
  return reason;
}

DeviceFacts device_facts() {
  const std::string reason = unavailable();
  require(reason.empty(), "cuda", "{}", reason);
  const Versions versions;
  DeviceFacts facts;
  facts.name = properties().name;
  facts.capability = {device_attribute(cudaDevAttrComputeCapabilityMajor),
                      device_attribute(cudaDevAttrComputeCapabilityMinor)};
  facts.driver = version(versions.driver);
  facts.runtime = version(versions.runtime);
  check(cudaMemGetInfo(&facts.free_bytes, &facts.memory_bytes), "cudaMemGetInfo");
  const double cycles = 1e3 * device_attribute(cudaDevAttrClockRate) *
                        device_attribute(cudaDevAttrMultiProcessorCount);
  const Rates rates = rates_of(10 * facts.capability[0] + facts.capability[1]);
  facts.flops_per_s = cycles * rates.f32;
  facts.tf32_flops_per_s = cycles * rates.tf32;
  facts.bytes_per_s = 2e3 * device_attribute(cudaDevAttrMemoryClockRate) *
                      device_attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;  // both edges
  return facts;
}

}  // namespace hg::cuda
