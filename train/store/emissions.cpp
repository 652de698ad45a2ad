#include "train/store/emissions.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <random>

#include "tensor/base/usage_error.h"

namespace hg {
namespace {

using energy::Domain;
using energy::Joules;

constexpr double kMicrojoulesPerKwh = 1e6 * energy::kJoulesPerKwh;

std::string number(double value) { return fmt::format("{}", value); }

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &local)};
}

std::string system_name() {
  utsname name{};
  ::uname(&name);
  return fmt::format("{}-{}-{}", name.sysname, name.release, name.machine);
}

constexpr const char* kDomainColumns[energy::kDomains][2] = {
    {"cpu_power", "cpu_energy"}, {"ram_power", "ram_energy"}, {"gpu_power", "gpu_energy"}};

class Row {
 public:
  Row() : fields_(emissions_columns().size()) {}
  std::string& operator[](std::string_view column) {
    const CsvRow& names = emissions_columns();
    return fields_[static_cast<std::size_t>(std::find(names.begin(), names.end(), column) -
                                            names.begin())];
  }
  const CsvRow& fields() const { return fields_; }

 private:
  CsvRow fields_;
};

void put_energy(Row& row, const Emissions& e) {
  for (std::size_t d = 0; d < energy::kDomains; ++d) {
    const bool gpu = static_cast<Domain>(d) == Domain::gpu;
    if (!e.domain_uj[d] && !gpu) continue;
    const Joules joules{energy::to_joules({e.domain_uj[d].value_or(0)}).value * e.pue};
    row[kDomainColumns[d][0]] = number(e.seconds > 0 ? joules.value / e.seconds : 0);
    row[kDomainColumns[d][1]] = number(energy::to_kwh(joules));
  }
  const double kg = energy::co2_of(e.energy(), e.intensity, e.pue).value * 1e-3;
  row["energy_consumed"] = number(energy::to_kwh(e.energy()) * e.pue);
  row["emissions"] = number(kg);
  row["emissions_rate"] = number(e.seconds > 0 ? kg / e.seconds : 0);
}

void put_machine(Row& row, const Emissions& e) {
  row["os"] = system_name();
  row["cpu_count"] = std::to_string(e.cpu.threads);
  row["cpu_model"] = e.cpu.brand;
  row["ram_total_size"] = number(e.memory_gb);
  row["cpu_utilization_percent"] = number(e.use.cpu_percent);
  row["gpu_utilization_percent"] = number(0);
  row["ram_utilization_percent"] = number(e.use.memory_percent);
  row["ram_used_gb"] = number(e.use.memory_gb);
}

}  // namespace

const CsvRow& emissions_columns() {
  static const CsvRow columns{"timestamp",
                              "project_name",
                              "run_id",
                              "experiment_id",
                              "duration",
                              "emissions",
                              "emissions_rate",
                              "cpu_power",
                              "gpu_power",
                              "ram_power",
                              "cpu_energy",
                              "gpu_energy",
                              "ram_energy",
                              "energy_consumed",
                              "water_consumed",
                              "country_name",
                              "country_iso_code",
                              "region",
                              "cloud_provider",
                              "cloud_region",
                              "os",
                              "python_version",
                              "codecarbon_version",
                              "cpu_count",
                              "cpu_model",
                              "gpu_count",
                              "gpu_model",
                              "longitude",
                              "latitude",
                              "ram_total_size",
                              "tracking_mode",
                              "cpu_utilization_percent",
                              "gpu_utilization_percent",
                              "ram_utilization_percent",
                              "ram_used_gb",
                              "on_cloud",
                              "pue",
                              "wue"};
  return columns;
}

Joules Emissions::energy() const {
  std::int64_t sum = 0;
  for (const auto& uj : domain_uj) sum += uj.value_or(0);
  return energy::to_joules({sum});
}

std::string emissions_csv(const Emissions& e) {
  Row row;
  row["timestamp"] = local_time();
  row["project_name"] = e.project;
  row["run_id"] = e.run_id;
  row["duration"] = number(e.seconds);
  put_energy(row, e);
  row["water_consumed"] = number(0);  // follows from wue
  row["country_name"] = e.intensity.country;
  row["country_iso_code"] = e.intensity.iso3;
  put_machine(row, e);
  row["tracking_mode"] = e.tracking_mode;
  row["on_cloud"].assign(1, 'N');  // g++ 12 sees an overflow in = "N"
  row["pue"] = number(e.pue);
  row["wue"] = number(0);
  return to_csv(emissions_columns()) + to_csv(row.fields());
}

Emissions parse_emissions(std::string_view text, const std::string& source) {
  const std::vector<CsvRow> rows = parse_csv(text, source);
  usage_require(
      rows.size() == 2 && rows[0] == emissions_columns() && rows[1].size() == rows[0].size(),
      source, "expected CodeCarbon's {} columns and one row", emissions_columns().size());
  const auto text_of = [&](std::string_view column) {
    const auto found = std::find(rows[0].begin(), rows[0].end(), column);
    return rows[1][static_cast<std::size_t>(found - rows[0].begin())];
  };
  const auto number_of = [&](std::string_view column) {
    const std::string field = text_of(column);
    char* end = nullptr;
    const double value = std::strtod(field.c_str(), &end);
    usage_require(!field.empty() && *end == '\0' && std::isfinite(value) && value >= 0, source,
                  "{} is \"{}\", expected a number", column, field);
    return value;
  };
  Emissions e;
  e.run_id = text_of("run_id");
  e.seconds = number_of("duration");
  e.pue = number_of("pue");
  usage_require(e.pue > 0, source, "pue is 0");
  e.use = {number_of("cpu_utilization_percent"), number_of("ram_utilization_percent"),
           number_of("ram_used_gb")};
  for (std::size_t d = 0; d < energy::kDomains; ++d) {
    const char* column = kDomainColumns[d][1];
    const bool absent_gpu = static_cast<Domain>(d) == Domain::gpu && number_of(column) == 0;
    if (!text_of(column).empty() && !absent_gpu)
      e.domain_uj[d] = std::llround(number_of(column) / e.pue * kMicrojoulesPerKwh);
  }
  return e;
}

std::string random_uuid() {
  std::random_device source;
  std::array<std::uint32_t, 4> r{};
  for (auto& word : r) word = source();
  // Version 4, variant 10.
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:04x}{:08x}", r[0], r[1] >> 16, r[1] & 0xfff,
                     (r[2] >> 16 & 0x3fff) | 0x8000, r[2] & 0xffff, r[3]);
}

}  // namespace hg
