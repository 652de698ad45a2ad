// A stand-in for NVIDIA's NVML, with two GPUs: 0000:01:00.0 or GPU-1, and 0000:02:00.0 or GPU-2.
// HG_STUB_NVML says how it behaves, and may change while in use:
//   counter     both count energy: 100 J at first; with each read 50 J more, the second 20 J
//   steady      as counter, but they draw 80 W, and move every millisecond
//   crowded     as counter; another process computes on the second as well
//   mig         as counter; the second is divided into instances
//   power       they only know their power: 120 W and 80 W
//   mean        as power, but of a generation that tells the mean of a second
//   mixed       the first counts, the second knows its power alone
//   unsupported NOT_SUPPORTED for both
//   still       counters that never move
//   limited     as still; the first GPU has an enforced limit of 300 W, the second a set one, 200 W
//   limited-power  as limited, but GPUs that only know their power
//   hang        initialising it never comes back
//   hang-later  as counter, but the hundredth read of energy never comes back
//   gone        the driver is not loaded
//   reloaded    as counter, from 0, once the library was initialised again
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace {

constexpr int kSuccess = 0, kUninitialized = 1, kNotSupported = 3, kNotFound = 6,
              kInsufficientSize = 7, kDriverNotLoaded = 9;

struct Process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

int inits = 0;
unsigned long long energy_mj[2] = {100'000, 100'000};
char devices[2];

std::string mode() {
  const char* value = std::getenv("HG_STUB_NVML");
  return value ? value : "gone";
}
int index_of(void* device) { return device == &devices[0] ? 0 : 1; }

int find(const char* wanted, const char* first, const char* second, void** device) {
  if (inits == 0) return kUninitialized;
  const bool is_first = std::strcmp(wanted, first) == 0;
  if (!is_first && std::strcmp(wanted, second) != 0) return kNotFound;
  *device = &devices[is_first ? 0 : 1];
  return kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  for (const bool hangs = mode() == "hang"; hangs;) ::pause();
  if (mode() == "gone") return kDriverNotLoaded;
  if (mode() == "reloaded") energy_mj[0] = energy_mj[1] = 0;
  ++inits;
  return kSuccess;
}
int nvmlShutdown() {
  --inits;
  return kSuccess;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  return find(id, "0000:01:00.0", "0000:02:00.0", device);
}
int nvmlDeviceGetHandleByUUID(const char* id, void** device) {
  return find(id, "GPU-1", "GPU-2", device);
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* mj) {
  const std::string m = mode();
  const int i = index_of(device);
  if (m == "gone" || inits == 0) return kUninitialized;
  static int reads = 0;
  while (m == "hang-later" && ++reads >= 100) ::pause();
  if (m == "power" || m == "mean" || m == "limited-power" || m == "unsupported" ||
      (m == "mixed" && i == 1))
    return kNotSupported;
  if (m == "steady") {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    *mj = 80 * (static_cast<unsigned long long>(now.tv_sec) * 1000 +
                static_cast<unsigned long long>(now.tv_nsec) / 1'000'000);
    return kSuccess;
  }
  *mj = energy_mj[i];
  if (m != "still" && m != "limited") energy_mj[i] += i == 0 ? 50'000 : 20'000;
  return kSuccess;
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* mw) {
  if (!mode().starts_with("limited") || index_of(device) == 1) return kNotSupported;
  *mw = 300'000;
  return kSuccess;
}
int nvmlDeviceGetPowerManagementLimit(void*, unsigned* mw) {
  if (!mode().starts_with("limited")) return kNotSupported;
  *mw = 200'000;
  return kSuccess;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* mw) {
  if (mode() == "gone") return kUninitialized;
  if (mode() == "unsupported") return kNotSupported;
  *mw = index_of(device) == 0 ? 120'000 : 80'000;
  return kSuccess;
}
int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* after_reset) {
  if (mode() != "mig") return kNotSupported;
  *now = *after_reset = index_of(device) == 1;
  return kSuccess;
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = mode() == "mean" ? 8 : 6;
  *minor = mode() == "mean" ? 6 : 1;
  return kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* list) {
  const unsigned there = 1 + (mode() == "crowded" && index_of(device) == 1);
  if (*count < there) return *count = there, kInsufficientSize;
  *count = there;
  list[0] = {static_cast<unsigned>(::getpid()), 1 << 20, ~0u, ~0u};
  if (there > 1) list[1] = {1, 1 << 20, ~0u, ~0u};
  return kSuccess;
}
const char* nvmlErrorString(int code) {
  switch (code) {
    case kUninitialized:
      return "Uninitialized";
    case kNotSupported:
      return "Not Supported";
    case kNotFound:
      return "Not Found";
    case kDriverNotLoaded:
      return "Driver Not Loaded";
  }
  return "Unknown Error";
}

}  // extern "C"
