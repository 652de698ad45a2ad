// A source of energy readings. Every meter, real or modelled, counts up from zero when it is
// opened, so the energy between two readings is their difference.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "energy/units.h"

namespace hg::energy {

// Where a figure comes from. `apportioned`: a measured total shared out by a model.
enum class Kind : std::uint8_t { measured, apportioned, modelled, unavailable };
std::string_view to_string(Kind kind);

// Domains never overlap: core and uncore are inside package, psys is not counted at all.
enum class Domain : std::uint8_t { package, dram, gpu };
inline constexpr std::size_t kDomains = 3;
std::string_view to_string(Domain domain);
std::string name_of_domain(std::size_t index);

// Energy since the meter was opened, and its bounds, which are equal to it as long as no fault has
// made it uncertain. `energy` and `low` never decrease; `high` grows while reads fail and comes
// down again when a good read shows what happened meanwhile.
struct Counted {
  MicroJoules energy, low, high;
};

// When a counter showed what it shows: it moves now and then, and a read comes some time later.
struct AsOf {
  std::int64_t time_ns = 0;  // best guess; 0: the time of the reading
  std::int64_t span_ns = 0;  // it moved within half of this before or after
};

struct Reading {
  std::int64_t time_ns = 0;                              // on the clock of now_ns()
  std::array<std::optional<Counted>, kDomains> domains;  // none: the meter has no such domain
  std::array<AsOf, kDomains> as_of{};
};
void add_to(Reading& reading, Domain domain, const Counted& more);

// What went wrong with a read. `reset`: the counter was set to another value; `gap`: so long since
// the last good read that the counter may have wrapped several times; `stall`: it stood still for
// much longer than it ever should; `late`: the read took so long that nobody waited for it;
// `shared`: what was read is not this process's alone.
enum class FaultKind : std::uint8_t { failed_read, garbage, reset, gap, stall, late, shared };
inline constexpr std::size_t kFaultKinds = 7;
std::string_view to_string(FaultKind kind);

struct Fault {
  FaultKind kind;
  std::int64_t time_ns;
  std::string zone;
};

// How far a single reading may be off: its unit, and how long ago the counter moved last.
struct ReadingError {
  double quantum_uj = 61;         // RAPL counts in 2^-14 J
  double update_period_s = 1e-3;  // and moves about once a millisecond
};
inline constexpr ReadingError kModelError{1, 0};

class Meter {
 public:
  virtual ~Meter() = default;
  virtual std::string_view name() const = 0;  // "rapl-powercap"
  virtual Kind kind() const = 0;              // of its least trustworthy domain
  virtual Kind kind_of(Domain) const { return kind(); }
  virtual ReadingError reading_error(Domain domain) const {
    return kind_of(domain) == Kind::modelled ? kModelError : ReadingError{};
  }
  // What the domain can draw at most; 0: unknown.
  virtual Watts max_power(Domain) const { return {}; }
  virtual std::string source() const = 0;    // for reports: its zones, or the row of a table
  virtual Reading read() = 0;                // never decreases; a failed read repeats the last
  virtual std::uint64_t faults() const = 0;  // counted so far
  virtual std::uint64_t faults_of(Domain) const { return faults(); }  // of the meter that gives it
  virtual std::vector<Fault> fault_list() const { return {}; }  // the first ones; may be cut short
};

}  // namespace hg::energy
