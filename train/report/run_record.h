// A run as reports show it, read from its folder.
#pragma once

#include "energy/books/ledger.h"
#include "train/store/metrics_csv.h"
#include "train/store/summary.h"

namespace hg::report {

// Its summary, and what else its folder holds.
struct RunRecord : RunSummary {
  std::string folder, config;           // the whole configuration
  std::vector<EpochRow> epochs;         // those of all phases that train
  std::vector<energy::LedgerRow> rows;  // of the ledger

  double total_uj() const;                 // of the ledger
  std::optional<double> final_f1() const;  // of the last evaluation
  std::string provenance() const;          // kind, meter and profile, for a caption
  std::string source_text() const;         // the same at length
};

// Throws UsageError where the folder holds no run or a file of it is damaged. A run that was killed
// has no summary: its energy is then the ledger's.
RunRecord read_run(const std::string& folder);

}  // namespace hg::report
