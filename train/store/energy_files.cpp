#include "train/store/energy_files.h"

#include <nlohmann/json.hpp>

#include "tensor/base/files.h"
#include "tensor/base/json_value.h"
#include "tensor/base/usage_error.h"

namespace hg {
namespace {

using Json = nlohmann::ordered_json;
using energy::Ledger;
using energy::LedgerRow;

std::string name_of_domain(std::size_t d) {
  return std::string(energy::to_string(static_cast<energy::Domain>(d)));
}

Json save_json(const Ledger& ledger, const MachineUse& use) {
  Json domains = Json::object();
  for (std::size_t d = 0; d < energy::kDomains; ++d)
    if (ledger.domain_uj[d]) domains[name_of_domain(d)] = *ledger.domain_uj[d];
  return {{"energy_uj", ledger.energy_uj},
          {"seconds", ledger.seconds},
          {"domain_uj", domains},
          {"cpu_percent", use.cpu_percent},
          {"memory_percent", use.memory_percent},
          {"memory_gb", use.memory_gb}};
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
    if (domains.has(name_of_domain(d))) ledger.domain_uj[d] = energy_of(domains[name_of_domain(d)]);
  use = {save["cpu_percent"].number(0, kMost), save["memory_percent"].number(0, kMost),
         save["memory_gb"].number(0, kMost)};
}

// The books as far as ledger.csv tells: all but time and domains.
Ledger ledger_of(std::vector<LedgerRow> rows) {
  Ledger ledger;
  ledger.kind = energy::Kind::measured;
  for (const LedgerRow& row : rows) {
    ledger.energy_uj += row.energy_uj;
    ledger.low_uj += row.low_uj;
    ledger.high_uj += row.high_uj;
    if (row.kind != energy::Kind::apportioned) ledger.kind = std::max(ledger.kind, row.kind);
  }
  ledger.rows = std::move(rows);
  return ledger;
}

}  // namespace

std::optional<Ledger> EnergyFiles::load(std::int64_t at_least_uj, Emissions& emissions) {
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
      last_ = save_json(ledger, emissions.use).dump();
      return ledger;
    }
  usage_fail(folder_.energy(), "was not saved with {}, which sums to {} uJ", path,
             ledger.energy_uj);
}

void EnergyFiles::save(const Ledger& ledger, const Emissions& emissions) {
  std::int64_t sum = 0;
  for (const LedgerRow& row : ledger.rows) sum += row.energy_uj;
  require(sum == ledger.energy_uj, folder_.ledger(),
          "does not close: rows sum to {} uJ, the meter to {} uJ", sum, ledger.energy_uj);
  const std::string now = save_json(ledger, emissions.use).dump();
  write_file(folder_.energy(),
             fmt::format("{{\"run_id\": {},\n \"saves\": [{}{}{}]}}\n",
                         Json(emissions.run_id).dump(), last_, last_.empty() ? "" : ",\n  ", now));
  write_file(folder_.ledger(), energy::ledger_csv(ledger.rows));
  last_ = now;
  write_file(folder_.emissions(), emissions_csv(emissions, ledger));
}

}  // namespace hg
