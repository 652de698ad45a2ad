// The parts of the report, each a piece of HTML. Every figure says its interval and where it comes
// from.
#pragma once

#include <string>
#include <vector>

#include "train/report/run_data.h"

namespace hg::report {

std::string cards(const RunData& run);
std::string curves(const std::vector<RunData>& runs);  // loss, F1, energy against F1
std::string phases(const RunData& run);                // forward, backward and the rest
std::string prediction(const RunData& run);            // "" without one
std::string flame(const RunData& run);
std::string top_rows(const RunData& run);
std::string comparison(const std::vector<RunData>& runs);
std::string details(const RunData& run);  // configuration

}  // namespace hg::report
