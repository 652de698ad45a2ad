// A training run from its configuration to a whole run folder: what `hgtrain train` does once, and
// an experiment many times.
#pragma once

#include "train/run/trainer.h"

namespace hg {

inline constexpr const char* kHoldsRun = "holds a run already; --resume goes on with it";

// Throws UsageError for what this program cannot train, or not account for.
void check_run(const Config& config);
// The run's data, after the check; ranks have the same, and linked GPUs if they work on such.
PhaseData open_run(const Config& config);

// The configuration with which the run in the folder goes on: its own, with `settings` on top. More
// epochs of its last phase, another number of threads and another budget may come from there or
// from the configuration `given` ("": none); any other difference is a UsageError that names the
// key.
Config config_to_resume(const std::string& folder, const std::string& given,
                        const std::vector<std::string>& settings);

// Trains to the end, or until a signal or the budget stops it; writes every file of the run folder,
// which is locked meanwhile.
RunEnding train_run(const Config& config, PhaseData data, const RunOptions& options);

}  // namespace hg
