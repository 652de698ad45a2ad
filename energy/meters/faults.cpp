#include "energy/meters/faults.h"

namespace hg::energy {

FaultLog::Zone FaultLog::add_zone(std::string name) {
  zones_.push_back(std::move(name));
  return static_cast<Zone>(zones_.size() - 1);
}

std::uint64_t FaultLog::add(FaultKind kind, std::int64_t time_ns, Zone zone) {
  if (entries_.size() < kListed) entries_.push_back({kind, zone, time_ns});
  ++of_kind_[static_cast<std::size_t>(kind)];
  return count_++;
}

void FaultLog::relabel(std::uint64_t fault, FaultKind from, FaultKind to) {
  if (fault < entries_.size()) entries_[fault].kind = to;
  --of_kind_[static_cast<std::size_t>(from)];
  ++of_kind_[static_cast<std::size_t>(to)];
}

std::vector<Fault> FaultLog::list() const {
  std::vector<Fault> faults;
  for (const Entry& e : entries_) faults.push_back({e.kind, e.time_ns, zones_[e.zone]});
  return faults;
}

}  // namespace hg::energy
