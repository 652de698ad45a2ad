#include "energy/meters/nvml_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace hg::energy::nvml {
namespace {

// Of a board that does not tell its limit: the largest sold draw around 1,400 W. A limit holds in
// the mean; for moments a board draws more.
constexpr Watts kMaxPower{3000};
constexpr double kOvershoot = 1.2;
// What the sensor of older boards takes to show a change.
constexpr Seconds kSensorPeriod{0.1}, kLongMean{1};

// In a container, NVML may know this process by the number that it has outside.
bool has_own_numbers() {
  constexpr ino_t kFirstNamespace = 0xEFFFFFFC;  // PROC_PID_INIT_INO
  struct stat pids {};
  return ::stat("/proc/self/ns/pid", &pids) == 0 && pids.st_ino != kFirstNamespace;
}

}  // namespace

std::string Library::load(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* error = dlerror();
    return error ? error : library;
  }
  const char* missing = nullptr;
  const auto look_for = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    return function != nullptr;
  };
  const auto demand = [&](auto& function, const char* name) {
    if (!look_for(function, name) && missing == nullptr) missing = name;
  };
  demand(init_, "nvmlInit_v2");
  demand(shutdown_, "nvmlShutdown");
  demand(by_pci_id_, "nvmlDeviceGetHandleByPciBusId_v2");
  demand(by_uuid_, "nvmlDeviceGetHandleByUUID");
  demand(total_energy_mj, "nvmlDeviceGetTotalEnergyConsumption");
  demand(power_mw, "nvmlDeviceGetPowerUsage");
  demand(error_string_, "nvmlErrorString");
  look_for(enforced_limit_mw_, "nvmlDeviceGetEnforcedPowerLimit");
  look_for(set_limit_mw_, "nvmlDeviceGetPowerManagementLimit");
  look_for(mig_mode_, "nvmlDeviceGetMigMode");
  look_for(capability_, "nvmlDeviceGetCudaComputeCapability");
  if (!look_for(processes_, "nvmlDeviceGetComputeRunningProcesses_v3"))
    look_for(processes_, "nvmlDeviceGetComputeRunningProcesses_v2");
  return missing ? fmt::format("{}: no function {}", library, missing) : "";
}

Library::~Library() {
  if (started_) shutdown_();
}

int Library::start() {
  const int code = init_();
  started_ = code == kSuccess;
  return code;
}

bool Library::restart(std::int64_t now_ns) {
  constexpr std::int64_t kPauseNs = 1'000'000'000;
  if (now_ns - restarted_ns_ < kPauseNs) return false;
  restarted_ns_ = now_ns;
  if (started_) shutdown_();
  if (start() != kSuccess) return false;
  ++session;
  return true;
}

int Library::find(const std::string& gpu, Device& device) const {
  const bool uuid = gpu.starts_with("GPU-") || gpu.starts_with("MIG-");
  return (uuid ? by_uuid_ : by_pci_id_)(gpu.c_str(), &device);
}

Watts Library::max_power(Device device) const {
  for (const auto limit_mw : {enforced_limit_mw_, set_limit_mw_})
    if (unsigned mw = 0; limit_mw && limit_mw(device, &mw) == kSuccess && mw > 0)
      return {std::min(mw * 1e-3 * kOvershoot, kMaxPower.value)};
  return kMaxPower;
}

bool Library::is_divided(Device device) const {
  unsigned now = 0, after_reset = 0;
  return mig_mode_ && mig_mode_(device, &now, &after_reset) == kSuccess && now == 1;
}

Seconds Library::power_averaged_over(Device device) const {
  int major = 0, minor = 0;
  if (!capability_ || capability_(device, &major, &minor) != kSuccess) return kLongMean;
  return major > 8 || (major == 8 && minor > 0) ? kLongMean : kSensorPeriod;
}

// One that cannot be found by its number in a list with entries is taken to be among them.
std::optional<int> Library::others(Device device) const {
  if (!processes_) return std::nullopt;
  std::array<Process, 64> list{};
  unsigned count = list.size();
  const int code = processes_(device, &count, list.data());
  if (code == kInsufficientSize) return static_cast<int>(count);
  if (code != kSuccess) return std::nullopt;
  const auto end = list.begin() + std::min<std::size_t>(count, list.size());
  const auto own = static_cast<unsigned>(::getpid());
  const bool listed = std::any_of(list.begin(), end, [&](auto& p) { return p.pid == own; });
  const bool hidden = !listed && count > 0 && has_own_numbers();
  return static_cast<int>(count) - (listed || hidden);
}

std::string Library::message(int code) const {
  const char* text = error_string_(code);
  return text ? text : fmt::format("error {}", code);
}

}  // namespace hg::energy::nvml
