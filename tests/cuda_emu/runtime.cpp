// The runtime's functions on the emulated device. Work on the first stream happens at once, that on
// other streams as late as possible: when someone waits for it, or keeps asking. The host is told
// neither: to it, what it has not waited for is not done, and its waits are counted. Late work
// other than copies is to wait for all that ops, on the first stream, were given before it.
// HG_EMU_GPUS says how many devices there are, HG_EMU_GPU_KINDS of how many kinds; a process uses
// one.
#include <cuda_runtime.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <thread>

#include "tests/cuda_emu/memory.h"
#include "tests/cuda_emu/queue.h"

struct CUstream_st {
  bool late = false;
  int device = 0;
  std::uint64_t ops = 0;                    // launches on the first stream that it waits for
  std::uint64_t done = 0;                   // pieces of deferred work done
  std::deque<std::function<bool()>> later;  // deferred work still to do
};
struct CUevent_st {
  std::chrono::steady_clock::time_point time;
  bool recorded = false;
  std::uint64_t number = 0;  // of the work before it
  std::uint64_t ops = 0;     // of it, launches on the first stream
  CUstream_st* stream = nullptr;
  std::uint64_t position = 0;  // among the deferred work of its stream
  bool sleeps = false;         // who waits for it does not spin
  int asked = 0;               // in vain
};

using hg::emu::DeviceAccess;
using hg::emu::Fault;

namespace {

constexpr unsigned kMaxThreads = 1024, kMaxGridYZ = 65535, kMaxGridX = 0x7fffffff;
constexpr std::size_t kMaxDynamicShared = 48 * 1024;

std::uint64_t queued = 0, waited_for = 0, waits = 0, launched = 0, recorded = 0;
std::map<const std::byte*, std::size_t> pinned;  // host memory that the device reaches

bool is_pinned(const void* p) {
  auto after = pinned.upper_bound(static_cast<const std::byte*>(p));
  if (after == pinned.begin()) return false;
  const auto& [begin, bytes] = *--after;
  return p < begin + bytes;
}

constexpr int kPatience = 3;  // questions after an event, before its stream works
thread_local int current_device = 0;

int number_in(const char* variable) {
  const char* const count = std::getenv(variable);
  return count ? std::atoi(count) : 1;
}
int devices() { return number_in("HG_EMU_GPUS"); }

void defer(CUstream_st* stream, std::function<bool()> work) {
  ++queued;
  stream->later.push_back(std::move(work));
}

// Does the work that the stream has put off, up to that position or to what cannot be done yet.
void advance(CUstream_st* stream, std::uint64_t position) {
  while (stream && stream->done < position && stream->later.front()()) {
    stream->later.pop_front();
    ++stream->done;
  }
}
void catch_up(CUstream_st* stream, std::uint64_t position) {
  for (advance(stream, position); stream && stream->done < position; advance(stream, position))
    std::this_thread::sleep_for(std::chrono::microseconds(100));
}

void expect_current(const char* who, const CUstream_st* stream) {
  if (stream && stream->device != current_device)
    throw Fault(fmt::format("{}: on a stream of device {}, while the thread's is {}", who,
                            stream->device, current_device));
}

void wait_for(std::uint64_t number) {
  if (number <= waited_for) return;
  waited_for = number;
  ++waits;
}

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

void hg::emu::queue_work() {
  const std::lock_guard lock(device_mutex());
  ++queued;
  ++launched;
}
std::uint64_t hg::emu::host_waits() { return waits; }
std::uint64_t hg::emu::launches() { return launched; }
std::uint64_t hg::emu::event_records() { return recorded; }

bool hg::emu::is_late(const CUstream_st* stream) { return stream && stream->late; }
void hg::emu::put_off(CUstream_st* stream, std::function<bool()> work) {
  const std::lock_guard lock(device_mutex());
  if (stream->ops < launched)
    throw Fault("late work: its stream does not wait for what ops were given before it");
  defer(stream, std::move(work));
}

cudaError_t hg::emu::check_launch(const cudaLaunchConfig_t& config) {
  expect_current("launch", config.stream);
  if (!is_late(config.stream)) queue_work();
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
    case cudaErrorInvalidDeviceFunction:
      return "cudaErrorInvalidDeviceFunction";
    case cudaErrorNoKernelImageForDevice:
      return "cudaErrorNoKernelImageForDevice";
    case cudaErrorUnsupportedPtxVersion:
      return "cudaErrorUnsupportedPtxVersion";
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

cudaError_t cudaGetDeviceCount(int* count) {
  *count = devices();
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaDriverGetVersion(int* number) { return *number = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* number) { return *number = 13000, cudaSuccess; }
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
// Of capability 7.5, the least that is supported; it has no clock.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const bool major = attribute == cudaDevAttrComputeCapabilityMajor,
             minor = attribute == cudaDevAttrComputeCapabilityMinor,
             processors = attribute == cudaDevAttrMultiProcessorCount;
  return *value = major ? 7 : minor ? 5 : processors ? 1 : 0, cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device >= devices()) return cudaErrorInvalidDevice;
  *properties = {"", {{'e', 'm', 'u', static_cast<char>(device)}}};
  const int kind = device % number_in("HG_EMU_GPU_KINDS");
  std::snprintf(properties->name, sizeof properties->name,
                kind == 0 ? "emulated device" : "emulated device %d", kind);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return *free = *total = std::size_t{1} << 30, cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= devices()) return cudaErrorInvalidDevice;
  return current_device = device, cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) { return *device = current_device, cudaSuccess; }
// The first has the second place on the bus.
cudaError_t cudaDeviceGetPCIBusId(char* id, int bytes, int device) {
  if (device < 0 || device >= devices()) return cudaErrorInvalidDevice;
  std::snprintf(id, static_cast<std::size_t>(bytes), "0000:%02x:00.0",
                device == 0   ? 2
                : device == 1 ? 1
                              : device + 1);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaStreamSynchronize(nullptr); }

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  void* const made = bytes == 0 ? nullptr : hg::emu::device_alloc(bytes);
  if (bytes > 0 && !made) return cudaErrorMemoryAllocation;
  *p = made;
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) { return hg::emu::device_free(p), cudaSuccess; }
cudaError_t cudaMallocHost(void** p, std::size_t bytes) {
  *p = std::malloc(bytes);
  if (!*p) return cudaErrorMemoryAllocation;
  const std::lock_guard lock(hg::emu::device_mutex());
  pinned.emplace(static_cast<const std::byte*>(*p), bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
  const std::lock_guard lock(hg::emu::device_mutex());
  pinned.erase(static_cast<const std::byte*>(p));
  return std::free(p), cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (kind == cudaMemcpyDefault) {
    const bool to_device = hg::emu::in_arena(to), from_device = hg::emu::in_arena(from);
    kind = static_cast<cudaMemcpyKind>((from_device ? 2 : 0) + (to_device ? 1 : 0));
  }
  const std::lock_guard lock(hg::emu::device_mutex());
  expect_current("cudaMemcpy", stream);
  if (hg::emu::is_late(stream)) {
    defer(stream, [=] { return cudaMemcpyAsync(to, from, bytes, kind, nullptr) == cudaSuccess; });
    return cudaSuccess;
  }
  const DeviceAccess open;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (!to_device) expect_host("cudaMemcpy to the host", to);
  if (!from_device) expect_host("cudaMemcpy from the host", from);
  if (from_device) hg::emu::host_reads("cudaMemcpy", from, bytes);
  if (to_device) hg::emu::host_wrote(to, bytes);
  std::memcpy(to, from, bytes);
  ++queued;
  const void* const host = to_device ? from : to;
  if (to_device != from_device && !is_pinned(host)) wait_for(queued);  // as the runtime may
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t) {
  if (bytes == 0) return cudaSuccess;
  const DeviceAccess open;
  hg::emu::host_wrote(p, bytes);
  std::memset(p, value, bytes);
  ++queued;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  static bool first = true;
  *stream = new CUstream_st;
  (*stream)->late = !std::exchange(first, false);
  (*stream)->device = current_device;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(hg::emu::device_mutex());
  if (stream) catch_up(stream, stream->done + stream->later.size());
  return wait_for(queued), cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(hg::emu::device_mutex());
  if (stream) stream->ops = std::max(stream->ops, event->ops);
  return catch_up(event->stream, event->position), cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st;
  (*event)->sleeps = (flags & cudaEventBlockingSync) != 0;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(hg::emu::device_mutex());
  expect_current("cudaEventRecord", stream);
  ++recorded;
  *event = {std::chrono::steady_clock::now(),
            true,
            queued,
            hg::emu::is_late(stream) ? stream->ops : launched,
            stream,
            stream ? stream->done + stream->later.size() : 0,
            event->sleeps,
            0};
  return cudaSuccess;
}
// An event that was never recorded counts as reached.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(hg::emu::device_mutex());
  const bool late = hg::emu::is_late(event->stream);
  if (late && ++event->asked > kPatience) advance(event->stream, event->position);
  if (late && event->stream->done >= event->position && event->asked > kPatience)
    return cudaSuccess;
  const bool put_off = event->stream && event->stream->done < event->position;
  return event->number <= waited_for && !put_off ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(hg::emu::device_mutex());
  if (!event->sleeps) throw Fault("cudaEventSynchronize: the host spins");
  catch_up(event->stream, event->position);
  return wait_for(event->number), cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin->recorded || !end->recorded) return cudaErrorInvalidValue;
  for (const cudaEvent_t event : {begin, end})
    if (cudaEventQuery(event) != cudaSuccess) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return cudaSuccess;
}
