// A run as reports show it, read from its folder.
#pragma once

#include "energy/books/ledger.h"
#include "train/config/config.h"
#include "train/store/confusion_csv.h"
#include "train/store/launches.h"
#include "train/store/metrics_csv.h"
#include "train/store/power_csv.h"
#include "train/store/steps_csv.h"
#include "train/store/summary.h"

namespace hg::report {

// Its summary, and what else its folder holds.
struct RunRecord : RunSummary {
  std::string folder, config;           // the whole configuration, as text
  std::optional<Config> settings;       // none: another version's, which has keys of its own
  std::vector<EpochRow> epochs;         // those of all phases that train
  std::vector<energy::LedgerRow> rows;  // of the ledger
  // None in the folder of an earlier version.
  std::vector<StepRow> steps;
  std::vector<PowerRow> power;
  std::vector<ConfusionRow> confusion;
  std::vector<Launch> launches;

  double total_uj() const;                 // of the ledger
  std::optional<double> final_f1() const;  // of the last evaluation
  std::string provenance() const;          // where its energy comes from, in one sentence
  std::string doubts() const;              // what makes it doubtful; empty: nothing
};

// Throws UsageError where the folder holds no run or a file of it is damaged. A run that was killed
// has no summary: its energy is then the ledger's.
RunRecord read_run(const std::string& folder);

// Names that tell runs apart: their own where all differ, else the ends of their folders' paths.
std::vector<std::string> names_of(const std::vector<RunRecord>& runs);
// A sentence on the energy of all of them.
std::string provenance_of(const std::vector<RunRecord>& runs);
// Wilson's 95 % interval of a share of n.
Interval share_of(double share, double n);

}  // namespace hg::report
