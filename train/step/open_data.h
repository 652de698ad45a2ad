// The data of a configuration, opened and checked against its model.
#pragma once

#include "data/loader.h"
#include "data/open.h"
#include "train/config/config.h"

namespace hg {

// Throws UsageError if the set is not found, damaged, or has other classes than the model.
std::unique_ptr<Dataset> open_data(const Config& config, const DataConfig& data, Split split);

// Throws UsageError, naming phase and data set, if none of its images has a box.
void require_boxes(const Config& config, std::size_t phase, const Dataset& set);

struct RunData {
  std::unique_ptr<Dataset> train, test;
};
// Of each phase; phases on the same data share it.
using PhaseData = std::vector<std::shared_ptr<const RunData>>;
PhaseData open_phases(const Config& config);

LoaderOptions loader_options(const Config& config, const PhaseConfig& phase, Split split,
                             std::uint64_t seed = 0);

}  // namespace hg
