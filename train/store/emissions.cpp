#include "train/store/emissions.h"

#include <sys/utsname.h>

#include <array>
#include <ctime>
#include <map>
#include <random>

#include "tensor/base/csv.h"
#include "tensor/base/text.h"

namespace hg {
namespace {

using energy::Domain;
using energy::Joules;

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

constexpr std::string_view kEmissionsColumns =
    "timestamp project_name run_id experiment_id duration emissions emissions_rate cpu_power "
    "gpu_power ram_power cpu_energy gpu_energy ram_energy energy_consumed water_consumed "
    "country_name country_iso_code region cloud_provider cloud_region os python_version "
    "codecarbon_version cpu_count cpu_model gpu_count gpu_model longitude latitude ram_total_size "
    "tracking_mode cpu_utilization_percent gpu_utilization_percent ram_utilization_percent "
    "ram_used_gb on_cloud pue wue";

// Fields by their columns; empty until set.
using EmissionsRow = std::map<std::string_view, std::string>;

void put_energy(EmissionsRow& row, const Emissions& e, const energy::Ledger& ledger) {
  const double seconds = ledger.seconds;
  const auto per_second = [&](double value) { return number(seconds > 0 ? value / seconds : 0); };
  for (std::size_t d = 0; d < energy::kDomains; ++d) {
    const bool gpu = static_cast<Domain>(d) == Domain::gpu;
    if (!ledger.domain_uj[d] && !gpu) continue;
    const Joules joules{energy::to_joules({ledger.domain_uj[d].value_or(0)}).value * e.pue};
    row[kDomainColumns[d][0]] = per_second(joules.value);
    row[kDomainColumns[d][1]] = number(energy::to_kwh(joules));
  }
  const Joules all = energy::to_joules({ledger.energy_uj});
  const double kg = energy::co2_of(all, e.intensity, e.pue).value * 1e-3;
  row["duration"] = number(seconds);
  row["energy_consumed"] = number(energy::to_kwh(all) * e.pue);
  row["emissions"] = number(kg);
  row["emissions_rate"] = per_second(kg);
}

void put_machine(EmissionsRow& row, const Emissions& e) {
  row["os"] = system_name();
  row["cpu_count"] = std::to_string(e.cpu.threads);
  row["cpu_model"] = csv_text(e.cpu.brand);
  row["ram_total_size"] = number(e.memory_gb);
  row["cpu_utilization_percent"] = number(e.use.cpu_percent);
  row["gpu_utilization_percent"] = number(0);
  row["ram_utilization_percent"] = number(e.use.memory_percent);
  row["ram_used_gb"] = number(e.use.memory_gb);
}

}  // namespace

std::string emissions_csv(const Emissions& e, const energy::Ledger& ledger) {
  EmissionsRow row;
  row["timestamp"] = local_time();
  row["project_name"] = csv_text(e.project);
  row["run_id"] = e.run_id;
  put_energy(row, e, ledger);
  row["water_consumed"] = number(0);  // follows from wue
  row["country_name"] = e.intensity.country;
  row["country_iso_code"] = e.intensity.iso3;
  put_machine(row, e);
  row["tracking_mode"] = e.tracking_mode;
  row["on_cloud"].assign(1, 'N');  // g++ 12 sees an overflow in = "N"
  row["pue"] = number(e.pue);
  row["wue"] = number(0);
  CsvRow names, fields;
  for (const std::string_view column : words(kEmissionsColumns)) {
    names.emplace_back(column);
    fields.push_back(row[column]);
  }
  return to_csv(names) + to_csv(fields);
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
