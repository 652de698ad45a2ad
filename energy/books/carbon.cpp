#include "energy/books/carbon.h"

#include <algorithm>
#include <vector>

namespace hg::energy {
namespace {

constexpr double kWorld = 475;
constexpr int kWorldYear = 2019;
constexpr std::string_view kTable = "Our World in Data, based on Ember and the Energy Institute",
                           kAverage = "world average, IEA";

std::vector<CarbonIntensity> sorted_table() {
  std::vector<CarbonIntensity> table{
#define HG_CARBON(iso3, country, g_per_kwh, year) {#iso3, country, g_per_kwh, year, kTable},
#define HG_CARBON_WORLD(iso3, country) {#iso3, country, kWorld, kWorldYear, kAverage},
#include "energy/books/carbon.inc"
#undef HG_CARBON
#undef HG_CARBON_WORLD
  };
  std::sort(table.begin(), table.end(),
            [](const auto& a, const auto& b) { return a.iso3 < b.iso3; });
  return table;
}

}  // namespace

std::span<const CarbonIntensity> carbon_intensities() {
  static const std::vector<CarbonIntensity> table = sorted_table();
  return table;
}

const CarbonIntensity* find_carbon_intensity(std::string_view iso3) {
  const auto table = carbon_intensities();
  const auto found =
      std::lower_bound(table.begin(), table.end(), iso3,
                       [](const auto& row, std::string_view code) { return row.iso3 < code; });
  return found != table.end() && found->iso3 == iso3 ? &*found : nullptr;
}

}  // namespace hg::energy
