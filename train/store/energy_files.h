// The energy of a run in its folder: ledger.csv holds the rows, energy.json what a resumed run must
// know beside them, emissions.csv a copy of the totals for CodeCarbon's tools, which is never read.
// Each file is whole at any moment, and a kill may come between any two of them: energy.json is
// written first and holds the last two saves, so that the ledger, old or new, finds its own.
#pragma once

#include "train/store/emissions.h"
#include "train/store/run_folder.h"

namespace hg {

class EnergyFiles {
 public:
  explicit EnergyFiles(std::string folder) : folder_{std::move(folder)} {}

  // What earlier parts of the run have saved, with its id and the machine's use in `emissions`;
  // none: nothing yet. Throws UsageError if a file is damaged or holds less than the run is known
  // to have used.
  std::optional<energy::Ledger> load(std::int64_t at_least_uj, Emissions& emissions);

  // Throws unless the ledger's rows sum to its total.
  void save(const energy::Ledger& ledger, const Emissions& emissions);

 private:
  const RunFolder folder_;
  std::string last_;  // the save before, as JSON; empty: there was none
};

}  // namespace hg
