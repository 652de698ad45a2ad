// Several meters as one: each gives the domains that were chosen from it.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "energy/meters/meter.h"

namespace hg::energy {

using DomainSet = std::array<bool, kDomains>;

class CombinedMeter final : public Meter {
 public:
  struct Part {
    std::unique_ptr<Meter> meter;
    DomainSet domains;
  };
  explicit CombinedMeter(std::vector<Part> parts);

  std::string_view name() const override { return name_; }  // "rapl-perf+nvml"
  Kind kind() const override;
  Kind kind_of(Domain domain) const override;
  std::string source() const override;
  Reading read() override;
  std::uint64_t faults() const override;
  std::vector<Fault> fault_list() const override;

 private:
  std::vector<Part> parts_;
  std::string name_;
};

}  // namespace hg::energy
