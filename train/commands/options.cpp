#include "tensor/cpu/parallel.h"
#include "tensor/cuda/device.h"
#include "train/commands/commands.h"
#include "train/usage_error.h"

namespace hg {
namespace {

[[noreturn]] void refuse_cuda() {
  const std::string reason = cuda::unavailable();
  usage_fail("run.device", "{}", reason.empty() ? "no model runs on CUDA yet: use cpu" : reason);
}

}  // namespace

std::vector<std::string> ModelOptions::all_settings() const {
  std::vector<std::string> all = settings;
  if (!device.empty()) all.push_back("run.device=\"" + device + "\"");
  if (threads) all.push_back(fmt::format("run.threads={}", *threads));
  if (seed) all.push_back(fmt::format("run.seed={}", *seed));
  return all;
}

void use_device(const RunConfig& run) {
  if (run.device == "cuda") refuse_cuda();
  cpu::set_threads(static_cast<int>(run.threads));
}

Config ModelOptions::load() const {
  const Config loaded = load_config(config, all_settings());
  use_device(loaded.run);
  return loaded;
}

}  // namespace hg
