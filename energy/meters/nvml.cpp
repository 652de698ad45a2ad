#include "energy/meters/nvml.h"

#include <fmt/format.h>

#include <algorithm>

#include "energy/meters/channel_meter.h"
#include "energy/meters/nvml_library.h"

namespace hg::energy {
namespace {

// Counters count in mJ and move every 20 to 100 ms.
constexpr ReadingError kCounterError{1000, 0.1};
constexpr Seconds kCounterSlack{0.2};
// What the documentation says of the sensor of the boards that have no counter.
constexpr double kSensorError = 0.05;

// The device in use. A driver that was reloaded needs the library initialised again, and a new
// handle.
class Gpu {
 public:
  Gpu(std::shared_ptr<nvml::Library> nvml, std::string id, nvml::Device device)
      : nvml_(std::move(nvml)), id_(std::move(id)), device_(device), session_(nvml_->session) {}

  // get(device) -> result code
  template <class Get>
  bool read(std::int64_t now_ns, Get get) {
    if (session_ == nvml_->session && get(device_) == nvml::kSuccess) return true;
    if (session_ == nvml_->session && !nvml_->restart(now_ns)) return false;
    if (nvml_->find(id_, device_) != nvml::kSuccess) return false;
    session_ = nvml_->session;
    return get(device_) == nvml::kSuccess;
  }

  RawRead energy(std::int64_t now_ns) {
    unsigned long long mj = 0;
    if (!read(now_ns, [&](nvml::Device d) { return nvml_->total_energy_mj(d, &mj); }))
      return {now_ns, ReadStatus::failed, 0};
    constexpr unsigned long long kTooMuch = 1'000'000'000'000'000;
    if (mj > kTooMuch) return {now_ns, ReadStatus::garbage, 0};
    return {now_ns, ReadStatus::good, mj * 1000};
  }

  PowerSample power(std::int64_t now_ns) {
    unsigned mw = 0;
    if (!read(now_ns, [&](nvml::Device d) { return nvml_->power_mw(d, &mw); }))
      return {now_ns, std::nullopt};
    return {now_ns, Watts{mw * 1e-3}};
  }

  // Asked for once a second: the driver looks through all processes.
  bool is_shared(std::int64_t now_ns) {
    constexpr std::int64_t kPauseNs = 1'000'000'000;
    if (asked_ns_ > 0 && now_ns - asked_ns_ < kPauseNs) return shared_;
    asked_ns_ = now_ns;
    if (session_ == nvml_->session)
      if (const auto others = nvml_->others(device_)) shared_ = *others > 0;
    return shared_;
  }

 private:
  std::shared_ptr<nvml::Library> nvml_;
  std::string id_;
  nvml::Device device_;
  int session_;
  std::int64_t asked_ns_ = 0;
  bool shared_ = false;
};

Opened not_initialised(const nvml::Library& library, int code) {
  const std::string reason = "nvmlInit: " + library.message(code);
  if (code == nvml::kDriverNotLoaded)
    return refused(kNvml, Verdict::rejected, reason, "sudo modprobe nvidia");
  if (code == nvml::kVersionMismatch)
    return refused(kNvml, Verdict::rejected, reason, "sudo reboot");
  if (code == nvml::kNoPermission)
    return refused(kNvml, Verdict::rejected, reason,
                   "sudo chmod a+rw /dev/nvidiactl /dev/nvidia[0-9]*");
  return refused(kNvml, Verdict::rejected, reason);
}

std::string sharing_note(const nvml::Library& library, nvml::Device device) {
  const std::optional<int> others = library.others(device);
  if (!others) return "; cannot tell whether others use it";
  return *others > 0
             ? fmt::format("; shared with {} other process{}", *others, *others == 1 ? "" : "es")
             : "";
}

}  // namespace

Opened open_nvml(const std::string& library, const std::string& gpu) {
  auto nvml = std::make_shared<nvml::Library>();
  if (const std::string missing = nvml->load(library); !missing.empty())
    return refused(kNvml, Verdict::absent, missing, "sudo apt install nvidia-driver");
  if (const int code = nvml->start(); code != nvml::kSuccess) return not_initialised(*nvml, code);
  if (gpu.empty()) return refused(kNvml, Verdict::rejected, "not needed: no GPU is in use");

  const std::string zone = "gpu " + gpu;
  nvml::Device device = nullptr;
  if (const int code = nvml->find(gpu, device); code != nvml::kSuccess)
    return refused(kNvml, Verdict::rejected,
                   fmt::format("{}: the driver does not know it: {}", zone, nvml->message(code)));
  if (gpu.starts_with("MIG-") || nvml->is_divided(device))
    return refused(kNvml, Verdict::rejected,
                   zone + ": divided by MIG, and NVML counts the whole of it alone",
                   fmt::format("sudo nvidia-smi -i {} -mig 0", gpu));

  auto meter = std::make_unique<ChannelMeter>(kNvml);
  const auto reader = std::make_shared<Gpu>(nvml, gpu, device);
  const auto shared = [reader](std::int64_t now_ns) { return reader->is_shared(now_ns); };
  const Watts most = nvml->max_power(device);
  std::string what = "energy counter";
  unsigned long long mj = 0;
  unsigned mw = 0;
  int code = nvml->total_energy_mj(device, &mj);
  if (code == nvml::kSuccess) {
    meter->add(
        Domain::gpu, CounterSpec{zone, 0, most, kCounterSlack, kLongestStill, kCounterError},
        [reader](std::int64_t now_ns) { return reader->energy(now_ns); }, shared);
  } else if (code == nvml::kNotSupported &&
             (code = nvml->power_mw(device, &mw)) == nvml::kSuccess) {
    const Seconds mean = nvml->power_averaged_over(device);
    what = fmt::format("power, the mean of {} s, integrated", mean.value);
    meter->add(
        Domain::gpu, PowerSpec{zone, most, kSensorError, mean},
        [reader](std::int64_t now_ns) { return reader->power(now_ns); }, shared);
  } else {
    return refused(kNvml, Verdict::rejected, zone + ": " + nvml->message(code));
  }
  meter->set_source(zone + ": " + what + sharing_note(*nvml, device));
  return {{kNvml, Verdict::used, meter->source(), ""}, std::move(meter)};
}

}  // namespace hg::energy
