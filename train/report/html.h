// Pieces of HTML that the parts of the report are made of; they escape what they are given.
#pragma once

#include <string>
#include <vector>

#include "train/report/run_record.h"

namespace hg::report {

// A page without reference to anything outside it: what goes before its contents, and after.
std::string document_start(const std::string& title);
std::string document_end();

std::string figure(const std::string& title, const std::string& body, const std::string& caption);

// A table whose columns sort when clicked: the head, cells with what they sort by, the end.
std::string table_head(const std::vector<std::string>& texts,
                       const std::vector<std::string>& numbers);
std::string cell(const std::string& text, double sort_by);
std::string cell(double value, int decimals);
std::string cell(const std::optional<double>& value, int decimals);  // "-": none
std::string no_cell();                                               // "-"
std::string label_cell(const std::string& text);
inline constexpr const char* kTableEnd = "</tbody></table></div>\n";

// "95 % interval of the energy: -60 % to +80 %"
std::string relative_bounds(const RunRecord& run);
// The run's name, or its folder where another run has the same name.
std::string name_among(const RunRecord& run, const std::vector<RunRecord>& runs);
// Wilson's 95 % interval of a share of n.
Interval share_of(double share, double n);

}  // namespace hg::report
