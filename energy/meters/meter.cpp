#include "energy/meters/meter.h"

namespace hg::energy {

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::measured:
      return "measured";
    case Kind::apportioned:
      return "apportioned";
    case Kind::modelled:
      return "modelled";
    case Kind::unavailable:
      break;
  }
  return "unavailable";
}

std::string_view to_string(Domain domain) {
  constexpr std::string_view kNames[kDomains] = {"package", "dram", "gpu"};
  return kNames[static_cast<std::size_t>(domain)];
}

std::string_view to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::failed_read:
      return "failed read";
    case FaultKind::garbage:
      return "garbage";
    case FaultKind::reset:
      return "reset";
    case FaultKind::gap:
      break;
  }
  return "gap";
}

void add_to(Reading& reading, Domain domain, const Counted& more) {
  std::optional<Counted>& sum = reading.domains[static_cast<std::size_t>(domain)];
  if (!sum) sum.emplace();
  sum->energy += more.energy;
  sum->low += more.low;
  sum->high += more.high;
}

}  // namespace hg::energy
