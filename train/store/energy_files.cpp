#include "train/store/energy_files.h"

#include <nlohmann/json.hpp>
#include <set>

#include "energy/books/labels.h"
#include "tensor/base/files.h"
#include "tensor/base/json_value.h"
#include "tensor/base/usage_error.h"

namespace hg {
namespace {

using Json = nlohmann::ordered_json;
using energy::Ledger;
using energy::LedgerRow;

Json save_json(const Ledger& ledger, const MachineUse& use) {
  Json domains = Json::object();
  for (std::size_t d = 0; d < energy::kDomains; ++d)
    if (ledger.domain_uj[d]) domains[energy::name_of_domain(d)] = *ledger.domain_uj[d];
  return {{"energy_uj", ledger.energy_uj},
          {"seconds", ledger.seconds},
          {"domain_uj", domains},
          {"cpu_percent", use.cpu_percent},
          {"memory_percent", use.memory_percent},
          {"memory_gb", use.memory_gb},
          {"cpu_run_s", use.cpu_run_s},
          {"cpu_wait_s", use.cpu_wait_s}};
}

// What parts of a run use is added up.
std::int64_t energy_of(const JsonValue& value) {
  value.number(0, static_cast<double>(energy::kMostMicroJoules));
  return value.integer();
}

void take_save(const JsonValue& save, Ledger& ledger, MachineUse& use) {
  constexpr double kMost = 1e15;
  ledger.seconds = save["seconds"].number(0, kMost);
  const JsonValue domains = save["domain_uj"];
  for (std::size_t d = 0; d < energy::kDomains; ++d)
    if (domains.has(energy::name_of_domain(d)))
      ledger.domain_uj[d] = energy_of(domains[energy::name_of_domain(d)]);
  use = {save["cpu_percent"].number(0, kMost), save["memory_percent"].number(0, kMost),
         save["memory_gb"].number(0, kMost)};
  if (save.has("cpu_run_s")) use.cpu_run_s = save["cpu_run_s"].number(0, kMost);
  if (save.has("cpu_wait_s")) use.cpu_wait_s = save["cpu_wait_s"].number(0, kMost);
}

// No machine draws more: 8 packages and 16 GPUs are 60 kW.
void check_power(const Ledger& ledger, const std::string& path) {
  constexpr double kMostWattsOfHost = 100'000;
  std::set<std::string> hosts;
  for (const LedgerRow& row : ledger.rows) hosts.insert(row.label.host);
  const double most_watts = kMostWattsOfHost * static_cast<double>(hosts.size());
  const double joules = energy::to_joules({ledger.energy_uj}).value;
  for (const auto& domain : ledger.domain_uj)
    usage_require(!domain || (*domain >= 0 && *domain <= ledger.energy_uj), path,
                  "{} uJ of a domain of {} uJ in all", domain.value_or(0), ledger.energy_uj);
  usage_require(joules <= most_watts * (ledger.seconds + 1), path,
                "sums to {} J in {} s, more than its machines can use", joules, ledger.seconds);
}

// What was used but not saved was nobody's that we know of.
void add_gap(Ledger& ledger, std::int64_t gap_uj) {
  energy::LedgerRow gap;
  gap.label = energy::RowTable().label(energy::kUnattributed);
  gap.kind = ledger.rows.empty() ? energy::Kind::modelled : energy::sum_of(ledger.rows).kind;
  gap.energy_uj = gap.low_uj = gap.high_uj = gap_uj;
  energy::add_rows(ledger.rows, {gap});
  ledger.energy_uj += gap_uj;
  ledger.low_uj += gap_uj;
  ledger.high_uj += gap_uj;
  for (auto& domain : ledger.domain_uj)
    if (domain) {
      *domain += gap_uj;
      return;
    }
}

// The books as far as ledger.csv tells: all but time and domains.
Ledger ledger_of(std::vector<LedgerRow> rows) {
  const LedgerRow sum = energy::sum_of(rows);
  Ledger ledger;
  ledger.kind = sum.kind == energy::Kind::apportioned ? energy::Kind::measured : sum.kind;
  ledger.energy_uj = sum.energy_uj;
  ledger.low_uj = sum.low_uj;
  ledger.high_uj = sum.high_uj;
  ledger.rows = std::move(rows);
  return ledger;
}

}  // namespace

std::optional<Ledger> EnergyFiles::load(const KnownEnergy& known, Emissions& emissions) {
  std::optional<Ledger> ledger = load_saved(known.saved_uj, emissions);
  saved_uj_ = ledger ? ledger->energy_uj : 0;
  if (known.used_uj <= saved_uj_) return ledger;
  if (!ledger) ledger.emplace().kind = energy::Kind::modelled;
  add_gap(*ledger, known.used_uj - saved_uj_);
  return ledger;
}

std::optional<Ledger> EnergyFiles::load_saved(std::int64_t at_least_uj, Emissions& emissions) {
  const std::string path = folder_.ledger();
  if (at_least_uj == 0 && !is_file(path)) return std::nullopt;
  Ledger ledger = ledger_of(energy::parse_ledger_csv(read_text(path), path));
  usage_require(ledger.energy_uj >= at_least_uj, path,
                "sums to {} uJ, expected at least the {} uJ that the run had used when its state "
                "was saved",
                ledger.energy_uj, at_least_uj);
  const JsonValue json = JsonValue::read(folder_.energy());
  emissions.run_id = json["run_id"].text();
  for (const JsonValue& save : json["saves"].items())
    if (save["energy_uj"].integer() == ledger.energy_uj) {
      take_save(save, ledger, emissions.use);
      check_power(ledger, folder_.energy());
      last_ = save_json(ledger, emissions.use).dump();
      return ledger;
    }
  usage_fail(folder_.energy(), "was not saved with {}, which sums to {} uJ", path,
             ledger.energy_uj);
}

std::string EnergyFiles::save(const Ledger& ledger, const Emissions& emissions) {
  const std::int64_t sum = energy::sum_of(ledger.rows).energy_uj;
  require(sum == ledger.energy_uj, folder_.ledger(),
          "does not close: rows sum to {} uJ, the meter to {} uJ", sum, ledger.energy_uj);
  try {
    write(ledger, emissions);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

void EnergyFiles::write(const Ledger& ledger, const Emissions& emissions) {
  const std::string now = save_json(ledger, emissions.use).dump();
  write_file(folder_.energy(),
             fmt::format("{{\"run_id\": {},\n \"saves\": [{}{}{}]}}\n",
                         Json(emissions.run_id).dump(), last_, last_.empty() ? "" : ",\n  ", now));
  write_file(folder_.ledger(), energy::ledger_csv(ledger.rows));
  last_ = now;
  saved_uj_ = ledger.energy_uj;
  write_file(folder_.emissions(), emissions_csv(emissions, ledger));
}

}  // namespace hg
