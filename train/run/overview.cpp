#include "train/run/overview.h"

#include "nn/vit.h"
#include "tensor/base/enum_names.h"
#include "tensor/base/text.h"
#include "tensor/cpu/parallel.h"
#include "train/config/model_options.h"
#include "train/phases/sample_batch.h"
#include "train/phases/step_cost.h"
#include "train/ranks/ranks.h"

namespace hg {
namespace {

std::string data_line(const DataConfig& config, const RunData& data) {
  const Dataset& train = *data.train;
  const std::string held_out = config.validation > 0 ? "held out of the training images"
                               : train.info().held_out.empty()
                                   ? ""
                                   : "held out: " + train.info().held_out;
  return fmt::format("data: {} ({}), {} images to train on, {} to test on{}, {} classes",
                     train.info().name, train.info().source, train.size(), data.test->size(),
                     held_out.empty() ? "" : fmt::format(" ({})", held_out), train.classes());
}

std::string an_image_takes(const StepCost& cost) {
  const auto of_image = [&](const Cost& c) {
    return with_prefix(static_cast<double>(c.flops()) / static_cast<double>(cost.images), "FLOP");
  };
  return fmt::format("{} forward, {} backward", of_image(cost.forward), of_image(cost.backward));
}

std::string phase_line(const Config& config, std::size_t i) {
  std::string line = fmt::format("phase {}: {}", i, config.phases[i].kind);
  if (config.phases.size() == 1) line = config.phases[i].kind;
  const auto cost = step_cost(config, i);
  if (!cost) return line;
  line += fmt::format(", {} epochs; an image takes {}", config.phases[i].train.epochs,
                      an_image_takes(*cost));
  if (const auto last = last_step_cost(config, i))
    line += fmt::format("; in the last epoch {}", an_image_takes(*last));
  return line;
}

// The CPU goes without saying unless it was asked for.
std::string device_line(const RunConfig& run) {
  const bool on_cpu = device_of(run) == Device::cpu;
  if (on_cpu && run.device == RunConfig::DeviceChoice::auto_)
    return fmt::format("threads: {}", cpu::threads());
  return fmt::format("device: {}, {} threads", on_cpu ? "CPU" : "GPU", cpu::threads());
}

}  // namespace

std::vector<std::string> overview(const Config& config, const PhaseData& data) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < data.size(); ++i)
    if (i == 0 || data[i] != data[i - 1])
      lines.push_back(data_line(config.phases[i].data, *data[i]));
  lines.push_back(fmt::format("model: {} attention, {} parameters", config.model.attention,
                              nn::Vit(options_to_measure(config), 0, true).parameters().count()));
  for (std::size_t i = 0; i < config.phases.size(); ++i) lines.push_back(phase_line(config, i));
  lines.push_back(device_line(config.run));
  if (const Ranks& all = ranks(); !all.alone())
    lines.back() += fmt::format(" on each of {} ranks, on {} host{}", all.size(), all.hosts(),
                                all.hosts() == 1 ? "" : "s");
  return lines;
}

}  // namespace hg
