// What is in an experiment's folder, read back: results of the runs that are finished, and the plan
// that they belong to.
#pragma once

#include "train/experiment/folder.h"
#include "train/experiment/results.h"

namespace hg::experiment {

// The status of results while runs are missing; that of all is kFinished.
inline constexpr const char* kRunning = "running";
inline constexpr const char* kInterrupted = "interrupted";

std::string results_file(const std::string& folder);
std::string page_file(const std::string& folder);
bool is_experiment(const std::string& folder);

std::vector<RunFigures> finished_runs(const std::string& folder,
                                      const std::vector<PlannedRun>& runs);

// Judges the finished runs and writes results.json and the page. `missing` is the status where some
// are not.
Results write_results(const std::string& folder, const Plan& plan,
                      const std::vector<PlannedRun>& runs, const std::string& missing);

// The same without writing, from what the folder says of its plan. Throws UsageError where it holds
// no experiment, or a damaged one.
Results read_results(const std::string& folder);

}  // namespace hg::experiment
