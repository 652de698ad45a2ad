// The energy of runs, as users see it in their folders: books that close, also after kills, a
// budget that holds, a forecast, a trace.
#include <doctest/doctest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>

#include "energy/books/ledger.h"
#include "tensor/base/csv.h"
#include "tests/energy/meters/moving_tree.h"
#include "tests/support/environment.h"
#include "tests/support/program.h"
#include "train/store/safetensors.h"

namespace {

using namespace hg;
using namespace hg::testing;

const Arguments kLong{"--set",  "train.epochs=8",     "--set", "data.train_limit=256",
                      "--set",  "train.batch_size=8", "--set", "model.depth=2",
                      "--quiet"};
const Arguments kEndless = kLong + Arguments{"--set", "train.epochs=100000"};

using Rows = std::vector<energy::LedgerRow>;

Rows ledger_of(const std::string& run) {
  return energy::parse_ledger_csv(contents_of(run + "/ledger.csv"), "ledger.csv");
}

std::int64_t sum_uj(const Rows& rows) {
  std::int64_t sum = 0;
  for (const auto& row : rows) sum += row.energy_uj;
  return sum;
}

std::int64_t summary_uj(const std::string& run) {
  return std::llround(summary_of(run)["energy_j"].get<double>() * 1e6);
}

// By the names of CodeCarbon's columns.
std::map<std::string, std::string> emissions_of(const std::string& run) {
  const auto rows = parse_csv(contents_of(run + "/emissions.csv"), "emissions.csv");
  std::map<std::string, std::string> fields;
  for (std::size_t i = 0; i < rows[0].size(); ++i) fields[rows[0][i]] = rows[1][i];
  return fields;
}

double kwh(const std::string& run) { return std::stod(emissions_of(run).at("energy_consumed")); }
double duration(const std::string& run) { return std::stod(emissions_of(run).at("duration")); }

double metrics_joules(const std::string& run) {
  const auto rows = parse_csv(contents_of(run + "/metrics.csv"), "metrics.csv");
  double sum = 0;
  for (std::size_t i = 1; i < rows.size(); ++i) sum += std::stod(rows[i][11]);
  return sum;
}

std::string steps_of(const std::string& run) {
  return read_safetensors(run + "/state.safetensors").metadata.at("optimizer_steps");
}

}  // namespace

TEST_CASE("the ledger of a run sums to its energy and every file agrees") {
  const TempFolder folder;
  const std::string run = folder / "run";
  REQUIRE(hgtrain(tiny_train(run, {"--set", "run.pue=1.25", "--set", "run.country=POL"})).code ==
          0);
  const Rows rows = ledger_of(run);
  const Json summary = summary_of(run);
  CHECK(sum_uj(rows) == summary_uj(run));
  CHECK(summary_uj(run) > 0);
  std::map<std::string, std::uint64_t> calls;
  for (const auto& row : rows) {
    calls[row.label.phase] += row.calls;
    CHECK(row.low_uj <= row.energy_uj);
    CHECK(row.high_uj >= row.energy_uj);
    CHECK(energy::to_string(row.kind) ==
          (summary["energy_kind"] == "measured" ? "apportioned" : summary["energy_kind"]));
  }
  for (const char* phase : {"forward", "backward", "optimizer", "data", "eval"}) {
    INFO(phase);
    CHECK(calls[phase] > 0);
  }
  CHECK(calls.contains("unattributed"));
  CHECK(calls.contains("profiler"));
  const double kwh = summary["energy_j"].get<double>() / 3.6e6;
  CHECK(summary["co2_g"].get<double>() == doctest::Approx(kwh * 661.926 * 1.25).epsilon(1e-9));
  CHECK(summary["energy_low_j"] <= summary["energy_j"]);
  CHECK(summary["energy_high_j"] >= summary["energy_j"]);
  const double f1 = summary["micro_f1"];
  if (f1 > 0)
    CHECK(summary["joules_per_f1"].get<double>() ==
          doctest::Approx(summary["energy_j"].get<double>() / f1));
  CHECK(::kwh(run) == doctest::Approx(kwh * 1.25).epsilon(1e-9));
  CHECK(metrics_joules(run) <= summary["energy_j"].get<double>());
  CHECK(metrics_joules(run) > 0);
}

TEST_CASE(
    "idle power stands beside the energy of a measured run, and is unknown of a modelled one") {
  const TempFolder folder;
  const Environment nvml("HG_NVML_LIB", "/nowhere");
  {
    const MovingTree machine;
    const Environment root("HG_POWERCAP_ROOT", machine.root());
    REQUIRE(hgtrain(tiny_train(folder / "measured")).code == 0);
  }
  const Json measured = summary_of(folder / "measured");
  REQUIRE(measured["energy_kind"] == "measured");
  for (const char* when : {"before", "after"}) {  // 44 W, less where the tree's thread had to wait
    CHECK(measured["idle_w"][when].get<double>() > 1);
    CHECK(measured["idle_w"][when].get<double>() < 88);
  }
  const Environment root("HG_POWERCAP_ROOT", "/nowhere");
  REQUIRE(hgtrain(tiny_train(folder / "modelled")).code == 0);
  const Json modelled = summary_of(folder / "modelled");
  if (modelled["energy_kind"] == "modelled") CHECK(modelled["idle_w"]["before"].is_null());
}

TEST_CASE("a forecast is kept with how right it was") {
  const TempFolder folder;
  const std::string run = folder / "run";
  REQUIRE(hgtrain(tiny_train(run)).code == 0);
  const Json p = summary_of(run)["prediction"];
  CHECK(p["step"] == 4);
  CHECK(p["low_j"] <= p["energy_j"]);
  CHECK(p["high_j"] >= p["energy_j"]);
  CHECK(p["actual_j"] == summary_of(run)["energy_j"]);
  CHECK(p["error_percent"].get<double>() ==
        doctest::Approx(100 * (p["energy_j"].get<double>() / p["actual_j"].get<double>() - 1)));
  CHECK(p["inside"].is_boolean());
}

TEST_CASE("a killed run keeps a whole ledger and resumed adds to it label by label") {
  const TempFolder folder;
  const std::string run = folder / "run";
  {
    Child child(tiny_train(run, kEndless));
    child.await([&] { return exists(run + "/state.safetensors") && exists(run + "/ledger.csv"); });
    child.signal(SIGKILL);
    CHECK(child.wait().code == 128 + SIGKILL);
  }
  const Rows killed = ledger_of(run);
  const std::string id = emissions_of(run).at("run_id");
  const double killed_after = duration(run);
  CHECK(sum_uj(killed) > 0);
  {
    Child child(tiny_train(run, kEndless) + Arguments{"--resume"});
    child.await([&] { return sum_uj(ledger_of(run)) > sum_uj(killed); });
    child.signal(SIGINT);
    CHECK(child.wait().code == 130);
  }
  const Rows resumed = ledger_of(run);
  CHECK(sum_uj(resumed) == summary_uj(run));
  CHECK(sum_uj(resumed) > sum_uj(killed));
  for (const auto& row : killed) {
    const auto found = std::find_if(resumed.begin(), resumed.end(),
                                    [&](const auto& r) { return r.label == row.label; });
    REQUIRE(found != resumed.end());
    CHECK(found->calls >= row.calls);
    CHECK(found->energy_uj >= row.energy_uj);
  }
  CHECK(emissions_of(run).at("run_id") == id);
  CHECK(duration(run) > killed_after);
  CHECK(kwh(run) * 3.6e12 == doctest::Approx(double(sum_uj(resumed))).epsilon(1e-9));
  CHECK(metrics_joules(run) * 1e6 <= double(sum_uj(resumed)) + 1);
  CHECK(summary_of(run)["prediction"]["actual_j"].is_null());
}

// On the run's own clock: what a kill loses is at most what lies between two saves.
TEST_CASE("the ledger is saved whole and more than once a second") {
  const TempFolder folder;
  const std::string run = folder / "run";
  Child child(tiny_train(run, kEndless));
  std::vector<double> seconds;
  const auto saved_anew = [&] {
    if (!exists(run + "/emissions.csv") || !exists(run + "/ledger.csv")) return false;
    CHECK(ledger_of(run).size() >= 2);  // throws where it is not whole
    return seconds.empty() || duration(run) > seconds.back();
  };
  while (seconds.size() < 6 && child.await(saved_anew)) seconds.push_back(duration(run));
  child.signal(SIGKILL);
  child.wait();
  REQUIRE(seconds.size() == 6);
  int quick = 0;
  for (std::size_t i = 1; i < seconds.size(); ++i) quick += seconds[i] - seconds[i - 1] <= 1;
  CHECK(quick >= 3);  // a machine that is busy elsewhere may miss one
}

TEST_CASE("a budget ends a run which goes on with a larger one to the same bits") {
  const TempFolder folder;
  const std::string whole = folder / "whole", run = folder / "run";
  REQUIRE(hgtrain(tiny_train(whole, kLong)).code == 0);
  const double all = summary_of(whole)["energy_j"];
  const auto budget = [](double joules) {
    return Arguments{"--set", "run.joule_budget=" + std::to_string(joules)};
  };
  Arguments loud = kLong;
  loud.pop_back();
  const Outcome stopped = hgtrain(tiny_train(run, loud) + budget(all / 4));
  INFO(stopped.err);
  REQUIRE(stopped.code == 0);
  CHECK(stopped.out.find("joule budget of") != std::string::npos);
  CHECK(stopped.out.find("--resume") != std::string::npos);
  CHECK(summary_of(run)["status"] == "budget");
  CHECK(summary_of(run)["energy_j"].get<double>() >= all / 4);
  CHECK(sum_uj(ledger_of(run)) == summary_uj(run));
  const std::string steps = steps_of(run);
  CHECK(std::stoi(steps) < 8 * 32);

  REQUIRE(hgtrain(tiny_train(run, kLong) + budget(all / 4) + Arguments{"--resume"}).code == 0);
  CHECK(steps_of(run) == steps);  // not one step more
  REQUIRE(hgtrain(tiny_train(run, kLong) + budget(1e6) + Arguments{"--resume"}).code == 0);
  CHECK(summary_of(run)["status"] == "finished");
  CHECK(contents_of(run + "/model.safetensors") == contents_of(whole + "/model.safetensors"));
  CHECK(contents_of(run + "/config.toml").find("joule_budget = 1000000.0") != std::string::npos);
}

TEST_CASE("a resumed run refuses a ledger that is damaged or poorer than its state") {
  const TempFolder folder;
  const std::string run = folder / "run", ledger = run + "/ledger.csv";
  REQUIRE(hgtrain(tiny_train(run)).code == 0);
  const std::string good = contents_of(ledger), state = contents_of(run + "/energy.json");
  const auto resume = [&] { return hgtrain(tiny_train(run) + Arguments{"--resume"}); };
  put(ledger, good.substr(0, good.rfind(',', good.size() / 2)));  // its last row lacks columns
  check_refused(resume(), 2, {"ledger.csv"});
  const auto lines = lines_of(good);
  put(ledger, lines[0] + "\n" + lines[2] + "\n");  // the profiler alone
  check_refused(resume(), 2, {"ledger.csv", "expected at least"});
  std::filesystem::remove(ledger);
  check_refused(resume(), 2, {"ledger.csv"});
  put(ledger, good);
  put(run + "/energy.json", "{}");
  check_refused(resume(), 2, {"energy.json", "run_id"});
  put(run + "/energy.json", state);
  put(run + "/emissions.csv", "a,b\n");  // for others, and made anew
  CHECK(resume().code == 0);
  CHECK(sum_uj(ledger_of(run)) == summary_uj(run));
  CHECK(kwh(run) * 3.6e12 == doctest::Approx(double(summary_uj(run))).epsilon(1e-9));
}

TEST_CASE("a resumed run refuses a ledger that no machine can have filled") {
  const TempFolder folder;
  const std::string run = folder / "run", ledger = run + "/ledger.csv";
  REQUIRE(hgtrain(tiny_train(run)).code == 0);
  const std::string good = contents_of(ledger);
  Rows rows = ledger_of(run);
  const auto refused = [&](std::int64_t uj, const char* part) {
    Rows absurd = rows;
    absurd[0].energy_uj = uj;
    put(ledger, energy::ledger_csv(absurd));
    check_refused(hgtrain(tiny_train(run) + Arguments{"--resume"}), 2, {"ledger.csv", part});
  };
  refused(-1'000'000, "energy_uj of unattributed");
  refused(INT64_MAX, "energy_uj of unattributed");
  refused(INT64_MAX - rows[1].energy_uj - 1, "energy_uj of unattributed");
}

TEST_CASE("energy files that cannot be written end no run, and it is said once") {
  const TempFolder folder;
  const std::string run = folder / "run", ledger = run + "/ledger.csv";
  std::filesystem::create_directories(ledger);  // where the file would be
  ChildOptions options;
  options.in_step = true;
  {
    Child child(tiny_train(run, kEndless), options);
    CHECK(child.await_line("ledger.csv: cannot write"));
    CHECK(child.await([&] { return exists(run + "/state.safetensors"); }));  // epochs go on
    std::filesystem::remove(ledger);
    CHECK(child.await([&] { return std::filesystem::is_regular_file(ledger); }));
    child.signal(SIGINT);
    const Outcome ended = child.wait();
    CHECK(ended.code == 130);
    CHECK(lines_of(ended.err).size() == 1);
  }
  CHECK(sum_uj(ledger_of(run)) == summary_uj(run));
  CHECK(summary_of(run)["energy_unsaved"] == "");
}

TEST_CASE("a run whose last books could not be written says so, and goes on from what it used") {
  const TempFolder folder;
  const std::string run = folder / "run";
  std::string blocked;  // what the ledger is written to
  ChildOptions options;
  options.in_step = true;
  const auto epochs = [&] { return column_of(run, "epoch").size(); };
  {
    Child child(tiny_train(run, kEndless), options);
    child.await([&] { return exists(run + "/state.safetensors") && exists(run + "/ledger.csv"); });
    blocked = fmt::format("{}/ledger.csv.{}.tmp", run, child.pid());
    std::error_code busy;  // the file itself may just be there
    while (!std::filesystem::create_directory(blocked, busy)) busy.clear();
    CHECK(child.await_line("ledger.csv: cannot write"));
    const std::size_t before = epochs();
    CHECK(child.await([&] { return epochs() > before + 1; }));  // whose energy no ledger has
    child.signal(SIGINT);
    const Outcome ended = child.wait();
    CHECK(ended.code == 130);
    CHECK(ended.err.find("energy files lack the end of the run") != std::string::npos);
  }
  CHECK(summary_of(run)["energy_unsaved"].get<std::string>().find("ledger.csv") !=
        std::string::npos);
  CHECK(sum_uj(ledger_of(run)) < summary_uj(run));
  const double in_epochs = metrics_joules(run);
  std::filesystem::remove(blocked);
  {
    Child child(tiny_train(run, kEndless) + Arguments{"--resume"});
    const std::size_t before = epochs();
    CHECK(child.await([&] { return epochs() > before; }));
    child.signal(SIGINT);
    CHECK(child.wait().code == 130);
  }
  CHECK(sum_uj(ledger_of(run)) == summary_uj(run));
  CHECK(summary_of(run)["energy_j"].get<double>() > in_epochs);
  CHECK(summary_of(run)["energy_unsaved"] == "");
  for (const std::string& joules : column_of(run, "energy_j")) CHECK(std::stod(joules) > 0);
}

TEST_CASE("a trace that fills the disk ends no run, a checkpoint does at once") {
  const TempFolder folder;
  const std::string run = folder / "run", other = folder / "other";
  ChildOptions options;
  options.largest_file = 120'000;  // larger than the state, smaller than the trace
  const Outcome untraced = hgtrain(tiny_train(run, {"--trace"}), options);
  INFO(untraced.err);
  CHECK(untraced.code == 0);
  CHECK(untraced.out.find("no trace.json: ") != std::string::npos);
  CHECK(!exists(run + "/trace.json"));
  CHECK(sum_uj(ledger_of(run)) == summary_uj(run));

  options.largest_file = 50'000;
  check_refused(
      hgtrain(tiny_train(other, set({"run.save_minutes=1e-9"}) + Arguments{"--quiet"}), options), 1,
      {"state.safetensors: cannot write"});
  CHECK(column_of(other, "epoch").empty());  // in the first epoch
}

TEST_CASE("a driver that hangs holds up neither the training nor its end") {
  const TempFolder folder;
  const std::string run = folder / "run";
  const Environment root("HG_POWERCAP_ROOT", "/nowhere"), nvml("HG_NVML_LIB", HG_NVML_STUB),
      gpu("HG_NVML_GPU", "GPU-1"), mode("HG_STUB_NVML", "hang-later");
  ChildOptions options;
  options.in_step = true;
  Arguments loud = kEndless;
  std::erase(loud, "--quiet");
  Child child(tiny_train(run, loud), options);
  CHECK(child.await_line("epoch 40/"));
  child.signal(SIGTERM);
  CHECK(child.wait().code == 130);
  const Json summary = summary_of(run);
  CHECK(summary["meter_notes"].get<std::string>().find("nvml read too late") != std::string::npos);
  CHECK(summary["meter_faults"].get<int>() >= 1);
  CHECK(summary["energy_high_j"] > summary["energy_j"]);
  CHECK(sum_uj(ledger_of(run)) == summary_uj(run));
}

TEST_CASE("a counter that stands still for most of a run is no measurement of it") {
  const TempFolder folder;
  const std::string run = folder / "run";
  PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0", "1000\n").zone("intel-rapl:1", "package-1", "1000\n");
  std::atomic<bool> stop = false;
  std::uint64_t last = 0;
  std::thread machine([&] {  // both move at first, then one of them
    for (std::uint64_t ms = 0; !stop; ms += 2) {
      last = 1000 + ms * 20'000;
      tree.set("intel-rapl:0", last);
      if (!exists(run + "/ledger.csv")) tree.set("intel-rapl:1", last);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  const Environment root("HG_POWERCAP_ROOT", tree.root()), nvml("HG_NVML_LIB", "/nowhere");
  Child child(tiny_train(run, kEndless));
  const auto trained_s = [&] { return exists(run + "/emissions.csv") ? duration(run) : 0; };
  CHECK(child.await([&] { return trained_s() > 2.5; }));
  child.signal(SIGINT);
  const Outcome ended = child.wait();
  stop = true;
  machine.join();
  CHECK(ended.code == 130);
  const Json summary = summary_of(run);
  CHECK(summary["energy_kind"] == "measured");
  CHECK(summary["meter_notes"].get<std::string>().find("package-1 stands still") !=
        std::string::npos);
  CHECK(summary["energy_high_j"].get<double>() > summary["energy_j"].get<double>() + 1000);
  CHECK(sum_uj(ledger_of(run)) == summary_uj(run));
}

TEST_CASE("a trace of a run is JSON with nested ops and data loading and power") {
  const TempFolder folder;
  const std::string run = folder / "run";
  const Outcome outcome = hgtrain(tiny_train(run, {"--trace"}));
  REQUIRE(outcome.code == 0);
  CHECK(outcome.out.find("trace.json holds the whole run") != std::string::npos);
  const Json trace = Json::parse(contents_of(run + "/trace.json"));
  std::map<int, std::vector<std::string>> open;
  std::map<std::string, int> phases;
  int powers = 0;
  for (const Json& e : trace["traceEvents"]) {
    const std::string ph = e["ph"];
    if (ph == "C") ++powers;
    if (ph == "B") open[e["tid"]].push_back(e["name"]);
    if (ph == "E") {
      REQUIRE(!open[e["tid"]].empty());
      open[e["tid"]].pop_back();
    }
    if (ph == "X") {
      REQUIRE(!open[e["tid"]].empty());
      ++phases[open[e["tid"]].front()];
    }
  }
  for (const auto& [tid, names] : open) CHECK(names.empty());
  for (const char* phase : {"forward", "backward", "optimizer", "data", "eval"}) {
    INFO(phase);
    CHECK(phases[phase] > 0);
  }
  CHECK(powers > 0);
}

TEST_CASE("an unknown country or profile is refused before a folder is made") {
  const TempFolder folder;
  const std::string run = folder / "run";
  check_refused(hgtrain(tiny_train(run, {"--set", "run.country=ITX"})), 2,
                {"run.country", "ITX", "ITA (Italy)"});
  put(folder / "profile.json", "{}");
  check_refused(
      hgtrain(tiny_train(run, {"--set", "run.energy_profile=" + folder / "profile.json"})), 2,
      {"profile.json"});
  check_refused(hgtrain(tiny_train(run, {"--set", "run.energy_profile=" + folder / "none.json"})),
                2, {"none.json"});
  CHECK(!exists(run));
}
