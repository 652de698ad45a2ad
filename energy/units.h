// Physical units as types: a watt is not a joule. Energy that must add up exactly is an integer.
#pragma once

#include <compare>
#include <cstdint>

namespace hg::energy {

struct Seconds {
  double value = 0;
  auto operator<=>(const Seconds&) const = default;
};

struct Watts {
  double value = 0;
  auto operator<=>(const Watts&) const = default;
};

struct Joules {
  double value = 0;
  auto operator<=>(const Joules&) const = default;
};

// Energy as it is booked: sums of it are exact.
struct MicroJoules {
  std::int64_t value = 0;
  auto operator<=>(const MicroJoules&) const = default;
  MicroJoules& operator+=(MicroJoules other) { return value += other.value, *this; }
};

constexpr MicroJoules operator+(MicroJoules a, MicroJoules b) { return {a.value + b.value}; }
constexpr MicroJoules operator-(MicroJoules a, MicroJoules b) { return {a.value - b.value}; }
constexpr Watts operator/(Joules e, Seconds t) { return {e.value / t.value}; }

constexpr Joules to_joules(MicroJoules e) { return {static_cast<double>(e.value) * 1e-6}; }
constexpr Seconds from_ns(std::int64_t ns) { return {static_cast<double>(ns) * 1e-9}; }

}  // namespace hg::energy
