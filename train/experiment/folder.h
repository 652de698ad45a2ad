// An experiment's folder: experiment.json (what it is of), runs/<arm>-<seed>, results.json and
// report.html. A second start in the same folder goes on with it.
#pragma once

#include <memory>

#include "tensor/base/folder_lock.h"
#include "train/experiment/plan.h"

namespace hg::experiment {

// Makes the folder the plan's, or makes sure that it is, and locks it. Throws UsageError, in one
// line, where it holds another experiment, another scale, other settings, or something else.
std::unique_ptr<FolderLock> claim_folder(const std::string& folder, const Plan& plan,
                                         FolderLock::Held held = FolderLock::Held::refuse);

std::string run_folder(const std::string& folder, const PlannedRun& run);

enum class RunProgress { none, begun, finished };
// Throws UsageError if what is there has another configuration.
RunProgress progress_of(const std::string& folder, const PlannedRun& run);

}  // namespace hg::experiment
