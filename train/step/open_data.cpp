#include "train/step/open_data.h"

#include <future>

#include "tensor/base/usage_error.h"
#include "train/config/model_options.h"
#include "train/config/selection.h"

namespace hg {

std::unique_ptr<Dataset> open_data(const Config& config, const DataConfig& data, Split split) {
  std::unique_ptr<Dataset> set = blame_input("", [&] {
    return open_dataset({.name = data.name,
                         .root = data.root,
                         .train_limit = data.train_limit,
                         .test_limit = data.test_limit,
                         .validation = data.validation,
                         .img_size = static_cast<int>(config.model.img_size),
                         .in_channels = static_cast<int>(config.model.in_channels),
                         .num_classes = config.model.num_classes,
                         .seed = static_cast<std::uint64_t>(config.run.seed)},
                        split);
  });
  usage_require(set->classes() == config.model.num_classes, "model.num_classes",
                "{} for {}, which has {} classes", config.model.num_classes, set->info().source,
                set->classes());
  usage_require(set->size() > 0, "data", "{} has no images", set->info().source);
  return set;
}

namespace {

RunData open_both(const Config& config, const DataConfig& data) {
  auto test = std::async(std::launch::async, [&] { return open_data(config, data, Split::test); });
  auto train = open_data(config, data, Split::train);  // its faults come first, as if opened first
  return {std::move(train), test.get()};
}

}  // namespace

void require_boxes(const Config& config, std::size_t phase, const Dataset& set) {
  for (std::int64_t i = 0; i < set.size(); ++i)
    if (set.box(i)) return;
  std::vector<std::string_view> with_boxes;
  for (const DatasetFacts& facts : known_datasets())
    if (facts.boxes) with_boxes.push_back(facts.name);
  usage_fail(fmt::format("phase.{}.kind", phase),
             "\"{}\" needs boxes, but data.name = \"{}\" ({}) has none; {} have",
             config.phases[phase].kind, config.phases[phase].data.name, set.info().source,
             fmt::join(with_boxes, " and "));
}

PhaseData open_phases(const Config& config) {
  PhaseData data;
  for (std::size_t i = 0; i < config.phases.size(); ++i) {
    for (std::size_t before = 0; before < i && data.size() == i; ++before)
      if (config.phases[before].data == config.phases[i].data) data.push_back(data[before]);
    if (data.size() == i)
      data.push_back(std::make_shared<const RunData>(open_both(config, config.phases[i].data)));
  }
  return data;
}

LoaderOptions loader_options(const Config& config, const PhaseConfig& phase, Split split,
                             std::uint64_t seed) {
  const bool train = split == Split::train;
  LoaderOptions options;
  options.batch_size = phase.train.batch_size;
  options.img_size = static_cast<int>(config.model.img_size);
  options.in_channels = static_cast<int>(config.model.in_channels);
  options.augment = train && phase.data.augment;
  options.shuffle = train;
  options.seed = seed;
  options.lanes = config.run.lanes;
  options.select = patch_selection(config, phase, split);
  options.device = device_of(config.run);
  return options;
}

}  // namespace hg
