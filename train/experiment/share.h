// An experiment's runs dealt out to processes that work at the same time, on one machine or
// several, in a folder that all of them see.
#pragma once

#include <memory>

#include "train/experiment/plan.h"

namespace hg::experiment {

// All runs of some seeds: the arms of a seed are paired, so one process takes them, and no host has
// more of one arm than of another.
struct RunShare {
  std::int64_t index = 1, count = 1;  // index: from 1

  bool whole() const { return count == 1; }
  RunShare part(std::int64_t place, std::int64_t parts) const;  // place: from 0
  std::vector<PlannedRun> of(const std::vector<PlannedRun>& runs, const Plan& plan) const;
  std::string text() const;  // "share 2 of 5"
};

// "2/5"; "": that of a Slurm job array's task, or all there is.
RunShare share_from(const std::string& text);

// A meter that counts a whole machine would book other shares' energy on this one's runs: holds the
// machine for this share, by the rank that reads its meters. Throws UsageError if another has it.
// Nothing with a meter of processes.
class MachineClaim {
 public:
  explicit MachineClaim(const RunShare& share);
  ~MachineClaim();
  MachineClaim(const MachineClaim&) = delete;
  MachineClaim& operator=(const MachineClaim&) = delete;

 private:
  int socket_ = -1;
};

}  // namespace hg::experiment
