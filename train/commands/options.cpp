#include "tensor/base/usage_error.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cuda_device.h"
#include "train/commands/commands.h"
#include "train/config/model_options.h"

namespace hg {
std::vector<std::string> ModelOptions::all_settings() const {
  std::vector<std::string> all = settings;
  if (!device.empty()) all.push_back("run.device=\"" + device + "\"");
  if (threads) all.push_back(fmt::format("run.threads={}", *threads));
  if (seed) all.push_back(fmt::format("run.seed={}", *seed));
  return all;
}

void use_device(const Config& config) {
  const RunConfig& run = config.run;
  if (run.device == RunConfig::DeviceChoice::cuda)
    usage_require(cuda::unavailable().empty(), "run.device", "{}", cuda::unavailable());
  if (device_of(run) == Device::cuda) cuda::use_tf32(config.device.tf32);
  cpu::set_threads(static_cast<int>(run.threads));
}

void ModelOptions::tell_device(const Config& loaded) const {
  if (loaded.run.device != RunConfig::DeviceChoice::auto_ || device_of(loaded.run) != Device::cpu)
    return;
  if (cuda::compiled() || !device.empty())
    fmt::print(stderr, "run.device = \"auto\": on the CPU ({})\n", cuda::unavailable());
}

Config ModelOptions::load() const {
  const Config loaded = load_config(config, all_settings());
  use_device(loaded);
  return loaded;
}

}  // namespace hg
