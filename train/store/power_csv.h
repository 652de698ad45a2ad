// power.csv: the energy of a run over time. Rows come closer at the beginning than later, so that a
// run of weeks has some thousands.
#pragma once

#include "train/store/growing_csv.h"

namespace hg {

struct PowerRow {
  double seconds = 0, energy_j = 0;  // of the run so far, parts before a resume included
};

std::vector<PowerRow> read_power(const std::string& path);

class PowerLog {
 public:
  // Goes on behind `seconds`, or begins where that is 0.
  PowerLog(const std::string& path, double seconds);

  // Adds a row where enough time went by since the last. Why it could not be written; empty: it is.
  [[nodiscard]] std::string note(const PowerRow& row);

 private:
  double last_s_;
  GrowingCsv file_;
};

}  // namespace hg
