// Counts the faults of a meter's zones and lists the first of them. Adding one never allocates:
// reads may go wrong a hundred times a second.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "energy/meters/meter.h"

namespace hg::energy {

class FaultLog {
 public:
  using Zone = std::uint32_t;

  FaultLog() { entries_.reserve(kListed); }
  FaultLog(const FaultLog&) = delete;  // zones point at it
  FaultLog& operator=(const FaultLog&) = delete;

  Zone add_zone(std::string name);
  // The number of the fault, for relabel().
  std::uint64_t add(FaultKind kind, std::int64_t time_ns, Zone zone);
  // For a fault that turned out to be of another kind.
  void relabel(std::uint64_t fault, FaultKind from, FaultKind to);

  std::uint64_t count() const { return count_; }
  std::uint64_t count(FaultKind kind) const { return of_kind_[static_cast<std::size_t>(kind)]; }
  std::vector<Fault> list() const;

 private:
  static constexpr std::size_t kListed = 1000;
  struct Entry {
    FaultKind kind;
    Zone zone;
    std::int64_t time_ns;
  };

  std::vector<std::string> zones_;
  std::vector<Entry> entries_;
  std::array<std::uint64_t, kFaultKinds> of_kind_{};
  std::uint64_t count_ = 0;
};

}  // namespace hg::energy
