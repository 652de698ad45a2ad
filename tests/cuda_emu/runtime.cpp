// The runtime's functions on the emulated device: everything happens at once, in order.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "tests/cuda_emu/memory.h"

struct CUstream_st {};
struct CUevent_st {
  std::chrono::steady_clock::time_point time;
  bool recorded = false;
};

using hg::emu::DeviceAccess;
using hg::emu::Fault;

namespace {

constexpr unsigned kMaxThreads = 1024, kMaxGridYZ = 65535, kMaxGridX = 0x7fffffff;
constexpr std::size_t kMaxDynamicShared = 48 * 1024;

void expect_host(const char* who, const void* p) {
  if (hg::emu::in_arena(p)) throw Fault(std::string(who) + ": expected host memory");
}

template <class T>
T add_atomically(T* p, T v, const void* code) {
  hg::emu::track(p, sizeof(T), hg::emu::AccessKind::atomic, code);
  const T before = *p;
  *p = before + v;
  return before;
}

}  // namespace

float atomicAdd(float* p, float v) { return add_atomically(p, v, __builtin_return_address(0)); }
int atomicAdd(int* p, int v) { return add_atomically(p, v, __builtin_return_address(0)); }
unsigned atomicAdd(unsigned* p, unsigned v) {
  return add_atomically(p, v, __builtin_return_address(0));
}

cudaError_t hg::emu::check_launch(const cudaLaunchConfig_t& config) {
  const dim3 &g = config.gridDim, &b = config.blockDim;
  const std::uint64_t threads = std::uint64_t{b.x} * b.y * b.z;
  if (threads == 0 || threads > kMaxThreads || b.z > 64) return cudaErrorInvalidConfiguration;
  if (g.x == 0 || g.y == 0 || g.z == 0 || g.x > kMaxGridX || g.y > kMaxGridYZ || g.z > kMaxGridYZ)
    return cudaErrorInvalidConfiguration;
  return config.dynamicSmemBytes > kMaxDynamicShared ? cudaErrorInvalidValue : cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  void* const made = bytes == 0 ? nullptr : hg::emu::device_alloc(bytes);
  if (bytes > 0 && !made) return cudaErrorMemoryAllocation;
  *p = made;
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) { return hg::emu::device_free(p), cudaSuccess; }
cudaError_t cudaMallocHost(void** p, std::size_t bytes) {
  *p = std::malloc(bytes);
  return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void* p) { return std::free(p), cudaSuccess; }

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  if (bytes == 0) return cudaSuccess;
  if (kind == cudaMemcpyDefault) {
    const bool to_device = hg::emu::in_arena(to), from_device = hg::emu::in_arena(from);
    kind = static_cast<cudaMemcpyKind>((from_device ? 2 : 0) + (to_device ? 1 : 0));
  }
  const DeviceAccess open;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (!to_device) expect_host("cudaMemcpy to the host", to);
  if (!from_device) expect_host("cudaMemcpy from the host", from);
  if (from_device) hg::emu::host_reads("cudaMemcpy", from, bytes);
  if (to_device) hg::emu::host_wrote(to, bytes);
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t) {
  if (bytes == 0) return cudaSuccess;
  const DeviceAccess open;
  hg::emu::host_wrote(p, bytes);
  std::memset(p, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  *event = {std::chrono::steady_clock::now(), true};
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return event->recorded ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return cudaEventQuery(event); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin->recorded || !end->recorded) return cudaErrorInvalidValue;
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return cudaSuccess;
}
