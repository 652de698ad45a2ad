// One self-contained HTML page on a run, or on several side by side.
#pragma once

#include <string>
#include <vector>

#include "train/report/run_record.h"

namespace hg::report {

inline constexpr std::size_t kMostBytes = 1'000'000;

// At most kMostBytes: flame graphs and configurations that would go beyond are left out, and the
// page says so.
std::string page(const std::vector<RunRecord>& runs, bool live = false);

// Reads the run folders and writes the page.
void write(const std::vector<std::string>& folders, const std::string& path);

}  // namespace hg::report
