// A stand-in for NVIDIA's NVML. HG_STUB_NVML says how it behaves, and may change while in use:
//   counter     two GPUs that count energy: 100 J at first, 50 J more with each read
//   power       two GPUs that only know their power: 120 W
//   mixed       the first counts, the second knows its power alone
//   unsupported NOT_SUPPORTED for both
//   still       counters that never move
//   half-still  the first GPU's counter moves, the second's does not
//   limited     as still; the first GPU has an enforced limit of 300 W, the second a set one, 200 W
//   limited-power  as limited, but GPUs that only know their power
//   hang        initialising it never comes back
//   hang-later  as counter, but the hundredth read of energy never comes back
//   none        no GPU
//   gone        the driver is not loaded
//   reloaded    as counter, from 0, once the library was initialised again
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace {

constexpr int kSuccess = 0, kUninitialized = 1, kNotSupported = 3, kDriverNotLoaded = 9;

int inits = 0;
unsigned long long energy_mj[2] = {100'000, 100'000};
char devices[2];

std::string mode() {
  const char* value = std::getenv("HG_STUB_NVML");
  return value ? value : "gone";
}
int index_of(void* device) { return device == &devices[0] ? 0 : 1; }

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
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = mode() == "none" ? 0 : 2;
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &devices[index];
  return kSuccess;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* mj) {
  const std::string m = mode();
  const int i = index_of(device);
  if (m == "gone" || inits == 0) return kUninitialized;
  static int reads = 0;
  while (m == "hang-later" && ++reads >= 100) ::pause();
  if (m == "power" || m == "limited-power" || m == "unsupported" || (m == "mixed" && i == 1))
    return kNotSupported;
  *mj = energy_mj[i];
  if (m != "still" && m != "limited" && !(m == "half-still" && i == 1)) energy_mj[i] += 50'000;
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
int nvmlDeviceGetPowerUsage(void*, unsigned* mw) {
  if (mode() == "gone") return kUninitialized;
  if (mode() == "unsupported") return kNotSupported;
  *mw = 120'000;
  return kSuccess;
}
const char* nvmlErrorString(int code) {
  switch (code) {
    case kUninitialized:
      return "Uninitialized";
    case kNotSupported:
      return "Not Supported";
    case kDriverNotLoaded:
      return "Driver Not Loaded";
  }
  return "Unknown Error";
}

}  // extern "C"
