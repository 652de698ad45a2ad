// What a run keeps of its energy between saves, whatever a kill leaves.
#include "train/store/energy_files.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/base/usage_error.h"
#include "tests/support/temp_folder.h"

namespace hg::testing {
namespace {

// Books of so much energy, a third of it of memory.
energy::Ledger books(std::int64_t third_uj) {
  energy::LedgerRow row;
  row.label = {"forward", "blocks.0.attn", "qkv"};
  row.energy_uj = 3 * third_uj;
  row.low_uj = third_uj;
  row.high_uj = 4 * third_uj;
  row.kind = energy::Kind::apportioned;
  energy::Ledger ledger;
  ledger.rows = {row};
  ledger.energy_uj = row.energy_uj;
  ledger.domain_uj = {2 * third_uj, third_uj, std::nullopt};
  ledger.seconds = static_cast<double>(third_uj) / 7;
  return ledger;
}

struct Loaded {
  energy::Ledger ledger;
  Emissions emissions;
};
Loaded load(const std::string& folder, std::int64_t at_least_uj = 0) {
  Loaded loaded;
  const auto ledger = EnergyFiles(folder).load({at_least_uj, at_least_uj}, loaded.emissions);
  REQUIRE(ledger.has_value());
  loaded.ledger = *ledger;
  return loaded;
}

void check_same(const energy::Ledger& a, const energy::Ledger& b) {
  CHECK(a.energy_uj == b.energy_uj);
  CHECK(a.low_uj == b.rows[0].low_uj);
  CHECK(a.high_uj == b.rows[0].high_uj);
  CHECK(a.domain_uj == b.domain_uj);
  CHECK(a.seconds == b.seconds);
  CHECK(energy::ledger_csv(a.rows) == energy::ledger_csv(b.rows));
}

Emissions about(const std::string& run_id, double memory_gb) {
  Emissions e;
  e.run_id = run_id;
  e.use = {50.5, 0.1, memory_gb};
  return e;
}

}  // namespace

TEST_CASE("a save is read back to the microjoule") {
  const TempFolder folder;
  Emissions none;
  CHECK_FALSE(EnergyFiles(folder.path()).load({}, none).has_value());
  CHECK(EnergyFiles(folder.path()).save(books(1'234'567'890'123), about("an id", 1.0 / 3)) == "");
  const Loaded loaded = load(folder.path());
  check_same(loaded.ledger, books(1'234'567'890'123));
  CHECK(loaded.ledger.kind == energy::Kind::measured);  // its rows are apportioned
  CHECK(loaded.emissions.run_id == "an id");
  CHECK(loaded.emissions.use.cpu_percent == 50.5);
  CHECK(loaded.emissions.use.memory_gb == 1.0 / 3);
}

TEST_CASE("a kill between two files leaves one save or the other, also after a resume") {
  const TempFolder folder;
  const std::string path = folder.path(), ledger = folder / "ledger.csv";
  EnergyFiles first(path);
  CHECK(first.save(books(10), about("id", 1)) == "");
  std::string old = contents_of(ledger);
  CHECK(first.save(books(20), about("id", 2)) == "");
  put(ledger, old);  // as if killed before the ledger was written
  check_same(load(path).ledger, books(10));
  CHECK(load(path).emissions.use.memory_gb == 1);

  EnergyFiles resumed(path);
  Emissions emissions;
  REQUIRE(resumed.load({30, 30}, emissions).has_value());
  old = contents_of(ledger);
  CHECK(resumed.save(books(30), about("id", 3)) == "");
  check_same(load(path).ledger, books(30));
  put(ledger, old);
  check_same(load(path).ledger, books(10));
}

TEST_CASE("files that do not belong together are refused, and emissions.csv is never read") {
  const TempFolder folder;
  const std::string path = folder.path(), ledger = folder / "ledger.csv",
                    state = folder / "energy.json";
  CHECK(EnergyFiles(path).save(books(10), about("id", 1)) == "");
  const auto refusal = [&](std::int64_t at_least_uj = 0) {
    Emissions emissions;
    return message_of<UsageError>([&] {
      EnergyFiles(path).load({at_least_uj, at_least_uj}, emissions);
    });
  };
  CHECK(refusal(31).find("sums to 30 uJ, expected at least the 31 uJ") != std::string::npos);
  const std::string good = contents_of(ledger), good_state = contents_of(state);
  put(ledger, energy::ledger_csv(books(9).rows));
  CHECK(refusal() == state + ": was not saved with " + ledger + ", which sums to 27 uJ");
  std::filesystem::remove(ledger);
  CHECK(refusal(1) == ledger + ": cannot read: No such file or directory");
  put(ledger, good);
  put(state, "{}");
  CHECK(refusal() == state + ": run_id is missing");
  std::string large = good_state;
  large.insert(large.find("\"package\":") + 10, "9223372036854775807");
  put(state, large);
  CHECK(refusal().starts_with(state + ": saves.0.domain_uj.package: expected a number from 0 to "));
  std::filesystem::remove(state);
  CHECK(refusal() == state + ": cannot read: No such file or directory");
  put(state, good_state);
  put(folder / "emissions.csv", "a,b\n");
  check_same(load(path).ledger, books(10));
}

TEST_CASE("a save that fails says why, and the next one finds its place") {
  const TempFolder folder;
  const std::string path = folder.path(), ledger = folder / "ledger.csv";
  EnergyFiles files(path);
  CHECK(files.save(books(10), about("id", 1)) == "");
  const std::string beside = fmt::format("{}.{}.tmp", ledger, getpid());
  std::filesystem::create_directory(beside);  // nothing can be written beside it
  CHECK(files.save(books(20), about("id", 2)).starts_with(ledger + ": cannot write"));
  CHECK(files.saved_uj() == 30);
  check_same(load(path).ledger, books(10));
  CHECK(files.save(books(25), about("id", 2)) != "");
  check_same(load(path).ledger, books(10));  // energy.json still knows the ledger that is there
  std::filesystem::remove(beside);
  CHECK(files.save(books(30), about("id", 3)) == "");
  CHECK(files.saved_uj() == 90);
  check_same(load(path).ledger, books(30));
}

TEST_CASE("a pipe in the folder holds nothing up") {
  const TempFolder folder;
  const std::string beside = fmt::format("{}.{}.tmp", folder / "ledger.csv", getpid());
  REQUIRE(::mkfifo(beside.c_str(), 0600) == 0);
  EnergyFiles files(folder.path());
  CHECK(files.save(books(10), about("id", 1)).find("ledger.csv") != std::string::npos);
  std::filesystem::remove(beside);
  REQUIRE(::mkfifo((folder / "ledger.csv").c_str(), 0600) == 0);
  CHECK(files.save(books(10), about("id", 1)).find("not a regular file") != std::string::npos);
}

TEST_CASE("what a run had used but could not save is unattributed when it goes on") {
  const TempFolder folder;
  CHECK(EnergyFiles(folder.path()).save(books(10), about("id", 1)) == "");
  Emissions emissions;
  const auto ledger = EnergyFiles(folder.path()).load({30, 37}, emissions);
  REQUIRE(ledger);
  CHECK(ledger->energy_uj == 37);
  CHECK(energy::sum_of(ledger->rows).energy_uj == 37);
  CHECK(ledger->rows.back().label.phase == "unattributed");
  CHECK(ledger->rows.back().energy_uj == 7);
  CHECK(*ledger->domain_uj[0] + *ledger->domain_uj[1] == 37);
  const TempFolder empty;
  CHECK(EnergyFiles(empty.path()).load({0, 5}, emissions)->energy_uj == 5);
}

TEST_CASE("more energy than a machine can use is refused") {
  const TempFolder folder;
  energy::Ledger absurd = books(1'000'000'000'000);  // 3 MJ
  absurd.seconds = 10;
  CHECK(EnergyFiles(folder.path()).save(absurd, about("id", 1)) == "");
  const auto refusal = [&] {
    Emissions emissions;
    return message_of<UsageError>([&] { EnergyFiles(folder.path()).load({}, emissions); });
  };
  CHECK(refusal().find("energy.json: sums to 3000000 J in 10 s") != std::string::npos);
  absurd.seconds = 60;
  absurd.domain_uj[0] = -1;
  CHECK(EnergyFiles(folder.path()).save(absurd, about("id", 1)) == "");
  CHECK(refusal().find("expected a number from 0") != std::string::npos);
}

TEST_CASE("a ledger that does not close is not saved") {
  const TempFolder folder;
  energy::Ledger open = books(10);
  open.energy_uj = 31;
  EnergyFiles files(folder.path());
  CHECK_THROWS_AS(static_cast<void>(files.save(open, {})), Error);
  CHECK(!is_file(folder / "ledger.csv"));
}

}  // namespace hg::testing
