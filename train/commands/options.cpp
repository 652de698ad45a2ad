#include <algorithm>

#include "tensor/base/usage_error.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cuda_device.h"
#include "tensor/cuda_peers.h"
#include "train/commands/commands.h"
#include "train/config/model_options.h"
#include "train/ranks/ranks.h"
#include "train/store/model_shape.h"
#include "train/store/run_folder.h"

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
  if (run.device != RunConfig::DeviceChoice::cpu && ranks().here() > 1)
    cuda::choose_gpu(ranks().place_here());
  if (run.device == RunConfig::DeviceChoice::cuda)
    usage_require(cuda::unavailable().empty(), "run.device", "{}", cuda::unavailable());
  if (device_of(run) == Device::cuda) cuda::use_tf32(config.device.tf32);
  const std::int64_t shared = ranks().here() == 1 ? 0 : ranks().threads();
  cpu::set_threads(static_cast<int>(run.threads > 0 ? run.threads : shared));
}

void ModelOptions::tell_device(const Config& loaded) const {
  const bool on_cpu = device_of(loaded.run) == Device::cpu;
  if (loaded.run.device == RunConfig::DeviceChoice::auto_ && on_cpu && !device.empty())
    fmt::print(stderr, "run.device = \"auto\": on the CPU ({})\n", cuda::unavailable());
}

namespace {

// Classes are those of the data, where data are named, else those of the file.
Config config_of_model(const std::string& path, const std::vector<std::string>& given) {
  const auto names = [&](const char* start) {
    return std::ranges::any_of(given, [&](auto& s) { return key_of(s).starts_with(start); });
  };
  const ModelShape shape = shape_of_model(path, names("model.heads"));
  std::vector<Setting> settings = shape.settings;
  if (names("data."))
    std::erase_if(settings, [](auto& s) { return key_of(s.text) == "model.num_classes"; });
  for (const std::string& setting : given) settings.push_back({setting});
  for (const std::string& note : shape.notes) fmt::print(stderr, "{}\n", note);
  return parse_config({"", path}, settings);
}

}  // namespace

Config ModelOptions::load() const {
  const std::string beside = holds_model(config) ? config_beside(config) : config;
  const Config loaded = beside.empty() ? config_of_model(config, all_settings())
                                       : load_config(beside, all_settings());
  use_device(loaded);
  return loaded;
}

}  // namespace hg
