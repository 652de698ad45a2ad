// What a kWh of electricity emits, by country, and from it the CO2 of a run.
#pragma once

#include <span>
#include <string_view>

#include "energy/units.h"

namespace hg::energy {

struct Grams {
  double value = 0;
  auto operator<=>(const Grams&) const = default;
};

struct CarbonIntensity {
  std::string_view iso3, country;
  double g_per_kwh = 0;
  int year = 0;
  std::string_view source;
};

// Every country of ISO 3166 and WLD, the world, by code. A country without a figure of its own has
// the world's average, and `source` says so.
std::span<const CarbonIntensity> carbon_intensities();
const CarbonIntensity* find_carbon_intensity(std::string_view iso3);  // null: no such code

inline constexpr double kJoulesPerKwh = 3.6e6;
constexpr double to_kwh(Joules e) { return e.value / kJoulesPerKwh; }

// kWh x intensity x pue (the site's power usage effectiveness, which is applied here alone).
constexpr Grams co2_of(Joules e, const CarbonIntensity& intensity, double pue) {
  return {to_kwh(e) * intensity.g_per_kwh * pue};
}

}  // namespace hg::energy
