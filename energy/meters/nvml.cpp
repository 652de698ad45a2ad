#include "energy/meters/nvml.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "energy/meters/channel_meter.h"

namespace hg::energy {
namespace {

// Of a board that does not tell its limit: the largest sold draw around 1,400 W. A limit holds in
// the mean; for moments a board draws more.
constexpr Watts kMaxPower{3000};
constexpr double kOvershoot = 1.2;
constexpr Seconds kSlack{0.2};  // counters move every 20 to 100 ms
// What the documentation says of the sensor of the older boards, which have no counter.
constexpr double kSensorError = 0.05;

// The result codes of nvml.h that matter here.
constexpr int kSuccess = 0, kNotSupported = 3, kNoPermission = 4, kDriverNotLoaded = 9,
              kVersionMismatch = 18;

using Device = void*;

// The functions in use. The library stays loaded: it may have threads of its own.
class Nvml {
 public:
  // What is missing; empty: nothing.
  std::string load(const std::string& library) {
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
    const auto find = [&](auto& function, const char* name) {
      if (!look_for(function, name) && missing == nullptr) missing = name;
    };
    find(init, "nvmlInit_v2");
    find(shutdown, "nvmlShutdown");
    find(device_count, "nvmlDeviceGetCount_v2");
    find(device_by_index, "nvmlDeviceGetHandleByIndex_v2");
    find(total_energy_mj, "nvmlDeviceGetTotalEnergyConsumption");
    find(power_mw, "nvmlDeviceGetPowerUsage");
    find(error_string, "nvmlErrorString");
    look_for(enforced_limit_mw, "nvmlDeviceGetEnforcedPowerLimit");
    look_for(set_limit_mw, "nvmlDeviceGetPowerManagementLimit");
    return missing ? fmt::format("{}: no function {}", library, missing) : "";
  }

  ~Nvml() {
    if (started) shutdown();
  }
  int start() {
    const int code = init();
    started = code == kSuccess;
    return code;
  }
  // At most once a second: initialising takes long when there is no driver.
  bool restart(std::int64_t now_ns) {
    constexpr std::int64_t kPauseNs = 1'000'000'000;
    if (now_ns - restarted_ns < kPauseNs) return false;
    restarted_ns = now_ns;
    if (started) shutdown();
    if (start() != kSuccess) return false;
    ++session;
    return true;
  }
  Watts max_power(Device device) const {
    for (const auto limit_mw : {enforced_limit_mw, set_limit_mw})
      if (unsigned mw = 0; limit_mw && limit_mw(device, &mw) == kSuccess && mw > 0)
        return {std::min(mw * 1e-3 * kOvershoot, kMaxPower.value)};
    return kMaxPower;
  }
  std::string message(int code) const {
    const char* text = error_string(code);
    return text ? text : fmt::format("error {}", code);
  }

  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*device_count)(unsigned*) = nullptr;
  int (*device_by_index)(unsigned, Device*) = nullptr;
  int (*total_energy_mj)(Device, unsigned long long*) = nullptr;
  int (*power_mw)(Device, unsigned*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  // Older libraries may lack these.
  int (*enforced_limit_mw)(Device, unsigned*) = nullptr;
  int (*set_limit_mw)(Device, unsigned*) = nullptr;
  bool started = false;
  int session = 0;  // handles are valid in the session that gave them
  std::int64_t restarted_ns = 0;
};

// One device. A driver that was reloaded needs the library initialised again, and new handles.
class Gpu {
 public:
  Gpu(std::shared_ptr<Nvml> nvml, unsigned index, Device device)
      : nvml_(std::move(nvml)), index_(index), device_(device), session_(nvml_->session) {}

  // get(device) -> result code
  template <class Get>
  bool read(std::int64_t now_ns, Get get) {
    if (session_ == nvml_->session && get(device_) == kSuccess) return true;
    if (session_ == nvml_->session && !nvml_->restart(now_ns)) return false;
    if (nvml_->device_by_index(index_, &device_) != kSuccess) return false;
    session_ = nvml_->session;
    return get(device_) == kSuccess;
  }
  Nvml* operator->() const { return nvml_.get(); }

 private:
  std::shared_ptr<Nvml> nvml_;
  unsigned index_;
  Device device_;
  int session_;
};

RawRead read_energy(Gpu& gpu, std::int64_t now_ns) {
  unsigned long long mj = 0;
  if (!gpu.read(now_ns, [&](Device d) { return gpu->total_energy_mj(d, &mj); }))
    return {now_ns, ReadStatus::failed, 0};
  constexpr unsigned long long kTooMuch = 1'000'000'000'000'000;
  if (mj > kTooMuch) return {now_ns, ReadStatus::garbage, 0};
  return {now_ns, ReadStatus::good, mj * 1000};
}

PowerSample read_power(Gpu& gpu, std::int64_t now_ns) {
  unsigned mw = 0;
  if (!gpu.read(now_ns, [&](Device d) { return gpu->power_mw(d, &mw); }))
    return {now_ns, std::nullopt};
  return {now_ns, Watts{mw * 1e-3}};
}

Opened not_initialised(const Nvml& nvml, int code) {
  const std::string reason = "nvmlInit: " + nvml.message(code);
  if (code == kDriverNotLoaded)
    return refused(kNvml, Verdict::rejected, reason, "sudo modprobe nvidia");
  if (code == kVersionMismatch) return refused(kNvml, Verdict::rejected, reason, "sudo reboot");
  if (code == kNoPermission)
    return refused(kNvml, Verdict::rejected, reason,
                   "sudo chmod a+rw /dev/nvidiactl /dev/nvidia[0-9]*");
  return refused(kNvml, Verdict::rejected, reason);
}

// Adds what the device offers and notes what that is. False: it offers nothing.
bool add_device(ChannelMeter& meter, const std::shared_ptr<Nvml>& nvml, unsigned index,
                std::string& note) {
  const std::string zone = fmt::format("gpu {}", index);
  Device device = nullptr;
  int code = nvml->device_by_index(index, &device);
  unsigned long long mj = 0;
  if (code == kSuccess) code = nvml->total_energy_mj(device, &mj);
  if (code == kSuccess) {
    meter.add(Domain::gpu, CounterSpec{zone, 0, nvml->max_power(device), kSlack, kLongestStill},
              [gpu = Gpu(nvml, index, device)](std::int64_t now_ns) mutable {
                return read_energy(gpu, now_ns);
              });
    note = zone + ": energy counter";
    return true;
  }
  unsigned mw = 0;
  if (code == kNotSupported) code = nvml->power_mw(device, &mw);
  note = fmt::format("{}: {}", zone, code == kSuccess ? "power, integrated" : nvml->message(code));
  if (code != kSuccess) return false;
  meter.add(Domain::gpu, PowerSpec{zone, nvml->max_power(device), kSensorError},
            [gpu = Gpu(nvml, index, device)](std::int64_t now_ns) mutable {
              return read_power(gpu, now_ns);
            });
  return true;
}

}  // namespace

Opened open_nvml(const std::string& library) {
  auto nvml = std::make_shared<Nvml>();
  if (const std::string missing = nvml->load(library); !missing.empty())
    return refused(kNvml, Verdict::absent, missing, "sudo apt install nvidia-driver");
  if (const int code = nvml->start(); code != kSuccess) return not_initialised(*nvml, code);
  unsigned count = 0;
  if (const int code = nvml->device_count(&count); code != kSuccess)
    return refused(kNvml, Verdict::rejected, "nvmlDeviceGetCount: " + nvml->message(code));
  if (count == 0) return refused(kNvml, Verdict::absent, "the driver has no GPU");
  std::vector<std::string> notes(count);
  auto meter = std::make_unique<ChannelMeter>(kNvml);
  bool any = false;
  for (unsigned i = 0; i < count; ++i) any |= add_device(*meter, nvml, i, notes[i]);
  const std::string source = fmt::format("{}", fmt::join(notes, ", "));
  if (!any) return refused(kNvml, Verdict::rejected, source);
  meter->set_source(source);
  return {{kNvml, Verdict::used, source, ""}, std::move(meter)};
}

}  // namespace hg::energy
