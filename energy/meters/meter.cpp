#include "energy/meters/meter.h"

namespace hg::energy {

namespace {

template <class Enum, std::size_t n>
std::string_view name_of(Enum value, const std::string_view (&names)[n]) {
  return names[static_cast<std::size_t>(value)];
}

}  // namespace

std::string_view to_string(Kind kind) {
  return name_of(kind, {"measured", "apportioned", "modelled", "unavailable"});
}
std::string_view to_string(Domain domain) { return name_of(domain, {"package", "dram", "gpu"}); }
std::string_view to_string(FaultKind kind) {
  return name_of(kind, {"failed read", "garbage", "reset", "gap"});
}

void add_to(Reading& reading, Domain domain, const Counted& more) {
  std::optional<Counted>& sum = reading.domains[static_cast<std::size_t>(domain)];
  if (!sum) sum.emplace();
  sum->energy += more.energy;
  sum->low += more.low;
  sum->high += more.high;
}

}  // namespace hg::energy
