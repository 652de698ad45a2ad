#include "train/run/memory.h"

#include "tensor/base/process.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "tensor/cpu/parallel.h"
#include "train/config/model_options.h"
#include "train/phases/step_cost.h"
#include "train/ranks/ranks.h"

namespace hg {
namespace {

double needed_by(const Config& config, const StepCost& cost) {
  const double copies = 2 + 2.0 / ranks().size();  // weights, gradients, two moments in shares
  const ModelConfig& m = config.model;
  const auto images = static_cast<double>(cost.images);
  const double at_work = std::min(images, static_cast<double>(cpu::threads()));
  const double pixels = static_cast<double>(m.in_channels) * static_cast<double>(m.img_size) *
                        static_cast<double>(m.img_size);
  return sizeof(float) * (copies * static_cast<double>(cost.parameters) + 2 * images * pixels) +
         static_cast<double>(cost.kept_bytes) / images * at_work;
}

}  // namespace

double memory_needed(const Config& config) {
  double most = 0;
  for (std::size_t i = 0; i < config.phases.size(); ++i)
    for (const auto& cost : {step_cost(config, i), last_step_cost(config, i)})
      if (cost) most = std::max(most, needed_by(config, *cost));
  return most;
}

void check_memory(const Config& config) {
  if (device_of(config.run) != Device::cpu) return;
  const double needed = memory_needed(config) * ranks().here(),
               there = machine_memory().total_bytes;
  usage_require(there == 0 || needed <= there, "memory",
                "training needs at least {}{}, this machine has {}; a smaller model.img_size, "
                "model.depth or train.batch_size needs less",
                with_prefix(needed, "B"),
                ranks().here() == 1 ? "" : fmt::format(" for the {} ranks here", ranks().here()),
                with_prefix(there, "B"));
}

}  // namespace hg
