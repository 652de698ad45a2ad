// hgtrain tune: who is tried, who survives, and what it leaves behind.
#include "train/experiment/tune.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>

#include "tensor/base/usage_error.h"
#include "tests/support/program.h"

namespace hg::experiment {
namespace {

using namespace hg::testing;

constexpr const char* kSwept = R"(
[experiment]
question = "Which is better?"
base = "shapes-small"
set = ["data.train_limit=60", "data.test_limit=20", "train.batch_size=20", "train.epochs=4",
       "model.depth=1", "model.emb_size=16", "model.patch_size=8"]
[[arm]]
name = "own"
set = ["train.learning_rate=1e-3"]
[[arm]]
name = "swept"
set = ["model.attention=gmm"]
[sweep]
"train.learning_rate" = [1e-3, 2e-3, 4e-3]
)";

TEST_CASE("candidates are all combinations of what the arm does not set itself") {
  std::string toml = kSwept;
  toml += "model.pool = ['cls', 'mean']\n";
  const TunePlan tuning = plan_tuning(parse_experiment(toml, "my.toml"), {});
  REQUIRE(tuning.arms.size() == 2);
  REQUIRE(tuning.arms[0].candidates.size() == 2);
  CHECK(tuning.arms[0].candidates[1].config.train.learning_rate == 1e-3);
  REQUIRE(tuning.arms[1].candidates.size() == 6);
  const Candidate& fourth = tuning.arms[1].candidates[3];
  CHECK(fourth.settings[0].text == "train.learning_rate=0.002");
  CHECK(fourth.settings[1].text == "model.pool=\"mean\"");
  CHECK(fourth.config.train.learning_rate == 2e-3);
  CHECK(fourth.config.model.attention == "gmm");
  CHECK(tuning.arms[1].divisors == std::vector<std::int64_t>{4, 2, 1});
  std::vector<std::size_t> order = tuning.arms[1].draw_order;
  std::sort(order.begin(), order.end());
  CHECK(order == std::vector<std::size_t>{0, 1, 2, 3, 4, 5});
  // A tenth of the training images, unless the file says how many.
  CHECK(tuning.held_out_here);
  CHECK(fourth.config.data.validation == 6);
  CHECK(fourth.config.phases[0].data.validation == 6);
  const TunePlan given =
      plan_tuning(parse_experiment(toml, "my.toml"), {"", "", {"data.validation=9"}});
  CHECK(!given.held_out_here);
  CHECK(given.arms[1].candidates[0].config.data.validation == 9);

  const auto fault = [](const std::string& text, const Request& request = {}) {
    return message_of<UsageError>([&] { plan_tuning(parse_experiment(text, "my.toml"), request); });
  };
  CHECK(fault(toml + "train.lr = [1]\n").find("my.toml:16: sweep: train.lr: unknown key") == 0);
  CHECK(fault(toml, {"", "", {"model.pool=cls"}}) == "--set: model.pool: is swept in my.toml");
  CHECK(fault(toml.substr(0, toml.find("[sweep]"))).find("expected a section [sweep]") !=
        std::string::npos);
}

TEST_CASE("half of the candidates survive a rung, two the last but one") {
  using Counts = std::vector<std::size_t>;
  CHECK(halving(8, 3) == Counts{8, 4, 2});
  CHECK(halving(5, 3) == Counts{5, 3, 2});
  CHECK(halving(2, 3) == Counts{2, 2, 2});
  CHECK(halving(3, 1) == Counts{3});
  CHECK(halving(1, 3) == Counts{});
  CHECK(most_within(14, 8, {1, 1, 1}) == 8);
  CHECK(most_within(13, 8, {1, 1, 1}) == 7);
  CHECK(most_within(5, 8, {1, 1, 1}) == 1);
  CHECK(most_within(14, 8, {1, 2, 4}) == 2);
  CHECK(survivors({{0, 0.5, 1}, {1, 0.7, 3}, {2, 0.7, 2}, {3, 0.1, 1}}, 1) == Counts{2});
  CHECK(survivors({{0, 0.5, 1}, {1, 0.7, 3}, {2, 0.7, 2}, {3, 0.1, 1}}, 3) == Counts{0, 1, 2});

  const Config whole = load_config("shapes", {"train.epochs=9", "train.warmup_epochs=2"});
  CHECK(at_rung(whole, 1) == whole);
  CHECK(at_rung(whole, 4).phases[0].train.epochs == 2);
  CHECK(at_rung(whole, 4).phases[0].train.warmup_epochs == 0.5);
}

Json tuning_of(const std::string& out) { return Json::parse(contents_of(out + "/tune.json")); }

Arguments tune(const std::string& file, const std::string& out, const Arguments& more = {}) {
  return Arguments{"tune", file, "--out", out, "--threads", "1", "--quiet"} + more;
}

TEST_CASE("tuning keeps all that it tried, and writes an experiment") {
  const TempFolder folder;
  const std::string file = folder / "my.toml", out = folder / "out";
  put(file, kSwept);
  const Outcome outcome = hgtrain(tune(file, out));
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(outcome.out.find("6 training images that are held out, a tenth") != std::string::npos);
  const Json json = tuning_of(out);
  CHECK(json["status"] == "finished");
  REQUIRE(json["runs"].size() == 3 + 2 + 2);  // none of the arm that sets the key itself
  std::vector<std::int64_t> epochs;
  double joules = 0;
  for (const Json& run : json["runs"]) {
    CHECK(run["arm"] == "swept");
    CHECK(exists(out + "/" + run["folder"].get<std::string>() + "/summary.json"));
    CHECK(summary_of(out + "/" + run["folder"].get<std::string>())["test_images"] == 6);
    epochs.push_back(run["epochs"]);
    joules += run["energy_j"].get<double>();
  }
  CHECK(epochs == std::vector<std::int64_t>{1, 1, 1, 2, 2, 4, 4});
  CHECK(json["arms"][1]["energy_j"].get<double>() == doctest::Approx(joules));
  CHECK(json["arms"][0]["chosen"].empty());
  const Json& last = json["runs"][5];
  const Json& best =
      last["micro_f1"].get<double>() > json["runs"][6]["micro_f1"].get<double>() ||
              (last["micro_f1"] == json["runs"][6]["micro_f1"] &&
               last["energy_j"].get<double>() < json["runs"][6]["energy_j"].get<double>())
          ? last
          : json["runs"][6];
  CHECK(json["arms"][1]["chosen"] == best["settings"]);

  const ExperimentFile tuned = load_experiment(out + "/tuned.toml");
  CHECK(tuned.sweep.empty());
  CHECK(tuned.arms[1].settings.back().text == best["settings"][0]);
  CHECK(make_plan(tuned, {}).arms[1].config.data.validation == 0);
  // Again it trains nothing; with another sweep the folder is another's.
  const Outcome again = hgtrain(tune(file, out, {"--json"}));
  REQUIRE(again.code == 0);
  CHECK(Json::parse(again.out) == json);
  std::string changed = kSwept;
  put(file, changed.replace(changed.find("4e-3]"), 5, "5e-3]"));
  check_refused(hgtrain(tune(file, out)), 2, {out, "learning_rate"});
}

TEST_CASE("a budget too small for all candidates draws some of them, and says so") {
  const TempFolder folder;
  const std::string file = folder / "my.toml";
  put(file, kSwept);
  const Outcome few = hgtrain(tune(file, folder / "runs", {"--runs", "6"}));
  INFO(few.err);
  REQUIRE(few.code == 0);
  CHECK(few.out.find("the budget allows 2 of 3 candidates, drawn by seed 1") != std::string::npos);
  CHECK(tuning_of(folder / "runs")["runs"].size() == 6);
  CHECK(tuning_of(folder / "runs")["budget_runs"] == 6);
  const Outcome none = hgtrain(tune(file, folder / "joules", {"--joules", "1e-6"}));
  REQUIRE(none.code == 0);
  CHECK(none.out.find("1 of 3 candidates, drawn by seed 1: nothing was compared") !=
        std::string::npos);
  CHECK(tuning_of(folder / "joules")["runs"].size() == 1);
  REQUIRE(hgtrain(tune(file, folder / "many", {"--joules", "1e9"})).code == 0);
  CHECK(tuning_of(folder / "many")["runs"].size() == 7);
  check_refused(hgtrain(tune(file, folder / "x", {"--joules", "1", "--runs", "3"})), 2, {"--runs"});
  check_refused(hgtrain({"tune", "quick"}), 2, {"quick", "[sweep]"});
}

TEST_CASE("killed, tuning goes on where it was") {
  const TempFolder folder;
  const std::string file = folder / "my.toml", out = folder / "out";
  put(file, kSwept);
  const std::string first = out + "/runs/swept-c1-r1-1";
  {
    Child child(tune(file, out));
    child.await([&] { return exists(first + "/summary.json"); });
    child.signal(SIGKILL);
    child.wait();
  }
  const auto written = std::filesystem::last_write_time(first + "/summary.json");
  const bool whole = summary_of(first)["status"] == "finished";
  REQUIRE(hgtrain(tune(file, out)).code == 0);
  CHECK(tuning_of(out)["runs"].size() == 7);
  if (whole) CHECK(std::filesystem::last_write_time(first + "/summary.json") == written);
}

}  // namespace
}  // namespace hg::experiment
