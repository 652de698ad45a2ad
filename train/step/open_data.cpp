#include "train/step/open_data.h"

#include <algorithm>
#include <future>

#include "data/damaged.h"
#include "tensor/base/usage_error.h"
#include "train/config/model_options.h"
#include "train/config/selection.h"
#include "train/ranks/ranks.h"

namespace hg {
namespace {

// "; a.png: damaged image; b.png: ..." and how many more there are.
std::string listed(const std::vector<DamagedItem>& damaged) {
  constexpr std::size_t kMost = 20;
  std::string list;
  for (std::size_t i = 0; i < std::min(damaged.size(), kMost); ++i) list += "; " + damaged[i].fault;
  if (damaged.size() > kMost) list += fmt::format("; and {} more", damaged.size() - kMost);
  return list;
}

// All images can be read, or those that cannot are left out, which standard error is told.
std::unique_ptr<Dataset> readable(std::unique_ptr<Dataset> set, bool skip_damaged) {
  const std::vector<DamagedItem> damaged = damaged_items(*set);
  if (damaged.empty()) return set;
  const std::string count = fmt::format("{} of {} images", damaged.size(), set->size());
  usage_require(skip_damaged && std::ssize(damaged) < set->size(), set->info().source,
                "{} cannot be read (data.skip_damaged = true leaves such out){}", count,
                listed(damaged));
  if (ranks().first())
    fmt::print(stderr, "{}: left out {} that cannot be read{}\n", set->info().source, count,
               listed(damaged));
  std::vector<std::int64_t> items;
  for (const DamagedItem& d : damaged) items.push_back(d.item);
  return without(std::move(set), items);
}

}  // namespace

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
  return readable(std::move(set), data.skip_damaged);
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
  options.workers = static_cast<int>(phase.data.workers);
  return options;
}

}  // namespace hg
