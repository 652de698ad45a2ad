// The energy of a run in its folder: ledger.csv holds the rows, energy.json what a resumed run must
// know beside them, emissions.csv a copy of the totals for CodeCarbon's tools, which is never read.
// Each file is whole at any moment, and a kill may come between any two of them: energy.json is
// written first and holds the last two saves, so that the ledger, old or new, finds its own.
#pragma once

#include "train/store/emissions.h"
#include "train/store/run_folder.h"

namespace hg {

// What a run's state knows of its energy.
struct KnownEnergy {
  std::int64_t saved_uj = 0;  // the ledger held so much
  std::int64_t used_uj = 0;   // the run had used so much: more, if the ledger could not be written
};

class EnergyFiles {
 public:
  explicit EnergyFiles(std::string folder) : folder_{std::move(folder)} {}

  // What earlier parts of the run have saved, with its id and the machine's use in `emissions`;
  // none: nothing yet. What the run had used but could not save is unattributed. Throws UsageError
  // if a file is damaged, holds what no machine can have used, or less than was saved.
  std::optional<energy::Ledger> load(const KnownEnergy& known, Emissions& emissions);

  // Why a file could not be written: the next save tries again; empty: all were. Throws unless the
  // ledger's rows sum to its total.
  [[nodiscard]] std::string save(const energy::Ledger& ledger, const Emissions& emissions);

  std::int64_t saved_uj() const { return saved_uj_; }  // what the ledger in the folder sums to

 private:
  std::optional<energy::Ledger> load_saved(std::int64_t at_least_uj, Emissions& emissions);
  void write(const energy::Ledger& ledger, const Emissions& emissions);

  const RunFolder folder_;
  std::string last_;  // the save before, as JSON; empty: there was none
  std::int64_t saved_uj_ = 0;
};

}  // namespace hg
