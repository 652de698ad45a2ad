// The parts of the report, each a piece of HTML. Every figure says its interval and where it comes
// from.
#pragma once

#include <string>
#include <vector>

#include "train/report/run_record.h"

namespace hg::report {

std::string cards(const RunRecord& run);
std::string curves(const std::vector<RunRecord>& runs);  // loss, F1, energy against F1
std::string phases(const RunRecord& run);                // forward, backward and the rest
std::string prediction(const RunRecord& run);            // "" without one
std::string flame(const RunRecord& run);
std::string top_rows(const RunRecord& run);
std::string comparison(const std::vector<RunRecord>& runs);
std::string details(const RunRecord& run);  // configuration

}  // namespace hg::report
