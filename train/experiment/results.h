// All that an experiment found, in the forms it is given out: results.json, a page, a table.
#pragma once

#include "train/experiment/answer.h"

namespace hg::experiment {

struct Results {
  Plan plan;
  std::string status;  // "running", "interrupted", "finished"
  std::string machine;
  Analysis analysis;
  Answer answer;
};

std::string to_json(const Results& results, int indent = -1);  // -1: on one line
// One self-contained HTML page.
std::string to_page(const Results& results, bool live = false);
// Plain text, with the answer below, folded to so many columns; 0: as wide as it is.
std::string to_table(const Results& results, std::size_t columns = 0);

}  // namespace hg::experiment
