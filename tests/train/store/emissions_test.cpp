#include "train/store/emissions.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "tensor/base/csv.h"
#include "tests/support/temp_folder.h"

namespace {

using namespace hg;
using namespace hg::testing;

struct EmissionsOf : Emissions {
  energy::Ledger ledger;
};

EmissionsOf sample() {
  EmissionsOf e;
  e.project = "a, \"b\"";
  e.run_id = random_uuid();
  e.tracking_mode = "process";
  e.ledger.seconds = 120;
  e.ledger.domain_uj = {7'200'000'000, 360'000'000, std::nullopt};
  e.ledger.energy_uj = 7'560'000'000;
  e.intensity = *energy::find_carbon_intensity("ITA");
  e.cpu.brand = "A CPU";
  e.cpu.threads = 4;
  e.memory_gb = 16;
  e.use = {50, 25, 4};
  return e;
}

std::map<std::string, std::string> row_of(const EmissionsOf& e) {
  const auto rows = parse_csv(emissions_csv(e, e.ledger), "emissions.csv");
  REQUIRE(rows.size() == 2);
  REQUIRE(rows[1].size() == rows[0].size());
  std::map<std::string, std::string> row;
  for (std::size_t i = 0; i < rows[0].size(); ++i) row[rows[0][i]] = rows[1][i];
  return row;
}

double number(const std::map<std::string, std::string>& row, const char* column) {
  return std::stod(row.at(column));
}

}  // namespace

TEST_CASE("emissions.csv has CodeCarbon's 38 columns in its order") {
  const EmissionsOf e = sample();
  const std::string text = emissions_csv(e, e.ledger);
  CHECK(text.substr(0, text.find('\n')) ==
        "timestamp,project_name,run_id,experiment_id,duration,emissions,emissions_rate,cpu_power,"
        "gpu_power,ram_power,cpu_energy,gpu_energy,ram_energy,energy_consumed,water_consumed,"
        "country_name,country_iso_code,region,cloud_provider,cloud_region,os,python_version,"
        "codecarbon_version,cpu_count,cpu_model,gpu_count,gpu_model,longitude,latitude,"
        "ram_total_size,tracking_mode,cpu_utilization_percent,gpu_utilization_percent,"
        "ram_utilization_percent,ram_used_gb,on_cloud,pue,wue");
}

TEST_CASE("emissions are in s and kWh and kg and W and PUE is applied once") {
  EmissionsOf e = sample();
  e.pue = 1.5;
  const auto row = row_of(e);
  CHECK(row.at("project_name") == "a, \"b\"");
  CHECK(row.at("timestamp").size() == 19);
  CHECK(row.at("timestamp")[10] == 'T');
  CHECK(number(row, "duration") == 120);
  CHECK(number(row, "cpu_energy") == doctest::Approx(0.002 * 1.5));
  CHECK(number(row, "ram_energy") == doctest::Approx(0.0001 * 1.5));
  CHECK(number(row, "gpu_energy") == 0);
  CHECK(number(row, "energy_consumed") == doctest::Approx(0.0021 * 1.5));
  CHECK(number(row, "cpu_power") == doctest::Approx(60 * 1.5));
  CHECK(number(row, "emissions") == doctest::Approx(0.0021 * 1.5 * 0.330718));
  CHECK(number(row, "emissions_rate") == doctest::Approx(0.0021 * 1.5 * 0.330718 / 120));
  CHECK(number(row, "ram_total_size") == 16);
  CHECK(number(row, "pue") == 1.5);
  CHECK(row.at("on_cloud") == "N");
  CHECK(row.at("country_name") == "Italy");
  for (const char* unknown : {"region", "cloud_provider", "cloud_region", "longitude", "latitude",
                              "gpu_model", "python_version"})
    CHECK(row.at(unknown) == "");
}

TEST_CASE("the name of a run is no live formula in emissions.csv") {
  EmissionsOf e = sample();
  for (const char* name : {"=1+1", "+x", "-x", "@x"}) {
    e.project = name;
    CHECK(row_of(e).at("project_name") == std::string("'") + name);
  }
}

TEST_CASE("kWh x intensity gives the kg of ten countries") {
  for (const char* iso3 : {"FRA", "NOR", "SWE", "GBR", "USA", "DEU", "CHN", "POL", "IND", "ITA"})
    for (const double pue : {1.0, 1.3}) {
      EmissionsOf e = sample();
      e.pue = pue;
      e.intensity = *energy::find_carbon_intensity(iso3);
      const auto row = row_of(e);
      const double kg = number(row, "energy_consumed") * e.intensity.g_per_kwh * 1e-3;
      INFO(iso3);
      CHECK(std::abs(number(row, "emissions") / kg - 1) < 1e-6);
      CHECK(row.at("country_iso_code") == iso3);
    }
}

TEST_CASE("a domain without a meter is left empty and not 0") {
  EmissionsOf e = sample();
  e.ledger.domain_uj[1].reset();
  e.ledger.energy_uj = 7'200'000'000;
  const auto row = row_of(e);
  CHECK(row.at("ram_energy") == "");
  CHECK(row.at("ram_power") == "");
  CHECK(number(row, "energy_consumed") == doctest::Approx(0.002));
}

TEST_CASE("run ids are random UUIDs of version 4") {
  const std::string a = random_uuid();
  CHECK(a != random_uuid());
  REQUIRE(a.size() == 36);
  CHECK(a[14] == '4');
  CHECK(std::string("89ab").find(a[19]) != std::string::npos);
  for (const std::size_t dash : {8, 13, 18, 23}) CHECK(a[dash] == '-');
}
