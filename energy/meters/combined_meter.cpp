#include "energy/meters/combined_meter.h"

#include <algorithm>

namespace hg::energy {

CombinedMeter::CombinedMeter(std::vector<Part> parts) : parts_(std::move(parts)) {
  for (const Part& part : parts_) {
    if (!name_.empty()) name_ += '+';
    name_ += part.meter->name();
  }
}

Kind CombinedMeter::kind() const {
  Kind weakest = Kind::measured;
  for (const Part& part : parts_) weakest = std::max(weakest, part.meter->kind());
  return weakest;
}

Kind CombinedMeter::kind_of(Domain domain) const {
  for (const Part& part : parts_)
    if (part.domains[static_cast<std::size_t>(domain)]) return part.meter->kind_of(domain);
  return Kind::unavailable;
}

std::string CombinedMeter::source() const {
  std::string text;
  for (const Part& part : parts_) {
    if (!text.empty()) text += "; ";
    text += std::string(part.meter->name()) + ": " + part.meter->source();
  }
  return text;
}

Reading CombinedMeter::read() {
  Reading all;
  for (Part& part : parts_) {
    const Reading one = part.meter->read();
    if (all.time_ns == 0) all.time_ns = one.time_ns;
    for (std::size_t d = 0; d < kDomains; ++d)
      if (part.domains[d]) all.domains[d] = one.domains[d];
  }
  return all;
}

std::uint64_t CombinedMeter::faults() const {
  std::uint64_t sum = 0;
  for (const Part& part : parts_) sum += part.meter->faults();
  return sum;
}

std::vector<Fault> CombinedMeter::fault_list() const {
  std::vector<Fault> all;
  for (const Part& part : parts_)
    for (Fault& fault : part.meter->fault_list()) all.push_back(std::move(fault));
  std::stable_sort(all.begin(), all.end(),
                   [](const Fault& a, const Fault& b) { return a.time_ns < b.time_ns; });
  return all;
}

}  // namespace hg::energy
