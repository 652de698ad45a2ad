#include "tensor/cpu/parallel.h"
#include "train/commands/commands.h"
#include "train/usage_error.h"

namespace hg {

Config ModelOptions::load() const {
  std::vector<std::string> all = settings;
  if (!device.empty()) all.push_back("run.device=\"" + device + "\"");
  if (threads) all.push_back(fmt::format("run.threads={}", *threads));
  if (seed) all.push_back(fmt::format("run.seed={}", *seed));
  const Config loaded = load_config(config, all);
  usage_require(loaded.run.device != "cuda", "run.device", "this build has no CUDA device");
  cpu::set_threads(static_cast<int>(loaded.run.threads));
  return loaded;
}

}  // namespace hg
