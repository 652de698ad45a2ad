// The parts of the report, each a piece of HTML. Where energies come from stands once, at the top
// of the page.
#pragma once

#include <string>
#include <vector>

#include "train/report/run_record.h"

namespace hg::report {

std::string cards(const RunRecord& run);
std::string curves(const std::vector<RunRecord>& runs);
std::string phases(const RunRecord& run);      // forward, backward and the rest
std::string prediction(const RunRecord& run);  // "" without one
std::string flame(const RunRecord& run);
std::string top_rows(const RunRecord& run);
std::string confusion(const RunRecord& run);  // "" without an evaluation
std::string origin(const RunRecord& run);     // host, command, version
std::string configuration(const RunRecord& run);

std::string comparison(const std::vector<RunRecord>& runs);
std::string settings_that_differ(const std::vector<RunRecord>& runs);
std::string settings_table(const std::vector<std::string>& names,
                           const std::vector<Config>& configs);

}  // namespace hg::report
