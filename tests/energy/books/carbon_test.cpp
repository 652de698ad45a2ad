#include "energy/books/carbon.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>

using namespace hg::energy;

TEST_CASE("countries have the intensities of the table") {
  struct Known {
    const char* iso3;
    double g_per_kwh;
  };
  for (const Known& k : {Known{"FRA", 56.039},
                         {"NOR", 30.08},
                         {"SWE", 40.695},
                         {"GBR", 237.589},
                         {"USA", 369.473},
                         {"DEU", 380.95},
                         {"CHN", 582.317},
                         {"POL", 661.926},
                         {"IND", 713.441},
                         {"ITA", 330.718}}) {
    INFO(k.iso3);
    const CarbonIntensity* found = find_carbon_intensity(k.iso3);
    REQUIRE(found);
    CHECK(found->g_per_kwh == k.g_per_kwh);
    CHECK(found->year >= 2009);
    CHECK(found->source.find("Ember") != std::string_view::npos);
  }
  CHECK(find_carbon_intensity("FRA")->country == "France");
}

TEST_CASE("every code of ISO 3166 and the world are there once and other codes are not") {
  const auto table = carbon_intensities();
  CHECK(table.size() == 249 + 1);
  for (std::size_t i = 0; i < table.size(); ++i) {
    CHECK(table[i].iso3.size() == 3);
    CHECK(table[i].g_per_kwh >= 0);
    if (i > 0) CHECK(table[i - 1].iso3 < table[i].iso3);
  }
  for (const char* code : {"", "FR", "fra", "XXX", "FRAN", "ZZZ"})
    CHECK(find_carbon_intensity(code) == nullptr);
}

TEST_CASE("a country without a figure has the world's average and says so") {
  for (const char* code : {"MCO", "LIE", "WLD"}) {
    CHECK(find_carbon_intensity(code)->g_per_kwh == 475);
    CHECK(find_carbon_intensity(code)->source.find("world") != std::string_view::npos);
  }
}

TEST_CASE("CO2 is kWh x intensity x PUE") {
  const CarbonIntensity& poland = *find_carbon_intensity("POL");
  CHECK(co2_of({3.6e6}, poland, 1).value == doctest::Approx(661.926));
  CHECK(co2_of({1.8e6}, poland, 1.5).value == doctest::Approx(661.926 * 0.75));
}
