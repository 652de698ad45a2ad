// Energy of a run on several ranks: who reads the meters of a machine, and the books of all ranks
// as one ledger, which closes over all of them.
#pragma once

#include <array>
#include <memory>

#include "energy/books/ledger.h"
#include "energy/meters/choice.h"
#include "train/ranks/ranks.h"
#include "train/store/summary.h"

namespace hg {

// The meter of this rank, for work on this device. One that counts a whole machine is read by the
// first rank there; with the others it stands at 0, and the first rank's ops share the energy of
// all. A GPU is read by the rank that works on it; UsageError where only some can be. All ranks
// call it.
energy::MeterChoice open_rank_meter(Ranks& ranks, Device device);

// A meter of which another rank reads some domains for this one: they stand at 0 and have no
// faults.
std::unique_ptr<energy::Meter> read_elsewhere(std::unique_ptr<energy::Meter> meter,
                                              const std::array<bool, energy::kDomains>& elsewhere);

// What a rank tells the first.
struct RankBooks {
  energy::Ledger ledger;
  double cpu_run_s = 0, cpu_wait_s = 0;
  std::uint64_t peak_rss_bytes = 0, meter_faults = 0;
  std::string meter_notes;
};
std::string pack(const RankBooks& books);
RankBooks unpack_books(std::string_view text);

// The books of the first rank and the others (rank 1, rank 2, ...) together, each row once, or once
// a host where there are several. Energies are sums; seconds are means over the ranks of a row, so
// that rows still add up to the time they cover.
energy::Ledger of_all_ranks(energy::Ledger first, const std::vector<RankBooks>& others,
                            const Ranks& ranks);

Scaling scaling_of(const energy::Ledger& ledger, int hosts);

}  // namespace hg
