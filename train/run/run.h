// A training run from its configuration to a whole run folder: what `hgtrain train` does once, and
// an experiment many times.
#pragma once

#include "train/run/trainer.h"

namespace hg {

// Throws UsageError for what this program cannot train, or not account for.
void check_run(const Config& config);
// The run's data, after the check.
PhaseData open_run(const Config& config);

// Throws UsageError unless the run in the folder, if there is one, can go on with this
// configuration: only its name, threads, budget and save_minutes may have changed.
void check_resumable(const std::string& folder, const Config& config);

// Trains to the end, or until a signal or the budget stops it; writes every file of the run folder.
RunEnding train_run(const Config& config, PhaseData data, const RunOptions& options);

}  // namespace hg
