#include "energy/meters/meter.h"

#include "tensor/base/enum_names.h"

namespace hg::energy {

std::string_view to_string(Kind kind) { return enum_name(kind); }
std::string_view to_string(Domain domain) { return enum_name(domain); }
std::string name_of_domain(std::size_t index) {
  return std::string(enum_name(static_cast<Domain>(index)));
}

std::string_view to_string(FaultKind kind) {
  constexpr std::string_view kNames[] = {"failed read",
                                         "garbage",
                                         "reset",
                                         "gap",
                                         "stands still",
                                         "read too late",
                                         "shared with other processes"};
  return kNames[static_cast<std::size_t>(kind)];
}

void add_to(Reading& reading, Domain domain, const Counted& more) {
  std::optional<Counted>& sum = reading.domains[static_cast<std::size_t>(domain)];
  if (!sum) sum.emplace();
  sum->energy += more.energy;
  sum->low += more.low;
  sum->high += more.high;
}

}  // namespace hg::energy
